import ConvoySupport
import Foundation
import FoundationNetworking
import FoundationXML

/// Returns an `XMLParser` for an XML body, not yet started. The counterpart of `AFXMLParserResponseSerializer`.
///
/// The body is checked beforehand, so that malformed input is an error here; on Linux `XMLParser.parse()` does not
/// report it. External entities are not loaded, and a document type that contains declarations is an error, as entities
/// can expand to any amount of text.
public struct XMLParserResponseSerializer: HTTPResponseSerialization {
    /// The content types that are accepted by default.
    public static let contentTypes: Set<String> = ["application/xml", "text/xml"]

    /// Which responses are acceptable, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: XMLParserResponseSerializer.contentTypes)

    /// A serializer that accepts ``contentTypes``.
    public init() {}

    /// An `XMLParser` with no delegate; nil for 204, 205, no body, and a single space.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; an error in `XMLParser.errorDomain` for empty or
    ///   malformed input; an error for an exceeded limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.xmlObject(for: response, data: data, maximumDepth: limits.maximumNestingDepth) { bytes in
            let parser = XMLParser(data: bytes)
            parser.shouldResolveExternalEntities = false
            return parser
        }
    }
}

/// Parses XML into an `XMLDocument`. The counterpart of `AFXMLDocumentResponseSerializer`.
///
/// External entities are never loaded, whatever the options say, as they would let a server read the client's files.
/// Otherwise it behaves like ``XMLParserResponseSerializer``.
public struct XMLDocumentResponseSerializer: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: XMLParserResponseSerializer.contentTypes)
    /// The parser's options. Those that would load external entities are removed.
    public var options: XMLNode.Options

    /// A serializer that accepts the types of ``XMLParserResponseSerializer``.
    public init(options: XMLNode.Options = []) {
        self.options = options
    }

    /// An `XMLDocument`; nil for 204, 205, no body, and a single space.
    ///
    /// - Throws: as ``XMLParserResponseSerializer/responseObject(for:data:)``.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        var safe = options
        safe.subtract([
            .nodeLoadExternalEntitiesAlways, .nodeLoadExternalEntitiesSameOriginOnly, .documentValidate,
            .documentXInclude,
        ])
        safe.insert(.nodeLoadExternalEntitiesNever)
        // libxml builds no deeper tree, and Foundation hides its error: the rest would be missing silently.
        return try http.xmlObject(
            for: response, data: data, maximumDepth: min(limits.maximumNestingDepth, 256)
        ) { try XMLDocument(data: $0, options: safe) }
    }
}

extension HTTPResponseSerializer {
    /// The common part of the XML serializers: makes the object of a document after inspecting it.
    func xmlObject(
        for response: URLResponse?, data: Data?, maximumDepth: Int, making make: (Data) throws -> Any
    ) throws -> Any? {
        let object = try responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            let document = try XMLEncoding.utf8(of: data, for: self, response: response)
            return try make(inspected(document, maximumDepth: maximumDepth, response: response))
        }
        // In JSON an empty body is a success, as in AFNetworking. It is not an XML document.
        if object == nil, let data, data.isEmpty, !hasNoContent(response) {
            _ = try inspected(data, maximumDepth: maximumDepth, response: response)
        }
        return object
    }

    private func inspected(_ document: Data, maximumDepth: Int, response: URLResponse?) throws -> Data {
        do throws(XMLInspection.Problem) {
            return try XMLInspection.document(of: document, maximumDepth: maximumDepth)
        } catch .tooDeep {
            throw limits.nestingError(response)
        } catch .declarations {
            throw NSError.limit(
                .declarations, "The document type contains declarations, with which it could expand without limit.",
                response)
        } catch .tooManyNames {
            throw NSError.limit(
                .names, "The document has too many attributes in one tag, or too many namespaces or names.", response)
        } catch .malformed(let error) {
            throw error
        }
    }
}

/// Finds the encoding of an XML document, and converts it to UTF-8.
///
/// The parser only gets valid UTF-8 without zero bytes. Foundation's parser crashes on Linux if an element's name is
/// invalid (`<` and a byte from 0x80 on), and forbidden content must not hide in another encoding.
enum XMLEncoding {
    /// The document in the form for the parser.
    ///
    /// A byte-order mark decides, then the document's own declaration, then the charset of the response (RFC 7303,
    /// section 3). A declaration that does not match the result is removed.
    ///
    /// - Throws: an error in `XMLParser.errorDomain` for an unknown encoding, or bytes that do not fit the encoding.
    static func utf8(of data: Data, for serializer: HTTPResponseSerializer, response: URLResponse?) throws -> Data {
        let mark = Charset.unicodeMark(of: data)
        // After a byte-order mark the XML declaration is removed below, as after any conversion.
        var document = mark?.isUTF8 == true ? Data(data.dropFirst(3)) : data
        if mark == nil, let declared = declaredEncoding(in: data) {
            guard let charset = Charset(named: declared) else {
                throw XMLInspection.error(.unknownEncodingError, "The document's encoding is not known.")
            }
            if !charset.isUTF8 {
                // If these bytes are not `<?xml` in the declared encoding, the declaration is false.
                guard let text = charset.text(of: data), text.utf8.starts(with: "<?xml".utf8) else {
                    throw XMLInspection.error(.invalidEncodingError, "The bytes do not fit the document's encoding.")
                }
                document = Data(text.utf8)
            }
        } else if !(mark?.isUTF8 ?? false) {
            document = try serializer.fromWideText(data) ?? serializer.utf8(data, response: response)
        }
        guard isText(document) else {
            throw XMLInspection.error(.invalidCharacterError, "The document is not text.")
        }
        guard let declared = declaredEncoding(in: document), document != data || Charset(named: declared)?.isUTF8 != true,
            let end = document.range(of: Data("?>".utf8))
        else { return document }
        return Data(document[end.upperBound...])
    }

    /// The name in `<?xml … encoding="name"?>`, if the document begins with that in ASCII.
    private static func declaredEncoding(in data: Data) -> String? {
        guard data.starts(with: Array("<?xml".utf8)) else { return nil }
        let declaration = String(decoding: data.prefix(200).prefix { $0 != UInt8(ascii: ">") }, as: UTF8.self)
        guard let word = declaration.range(of: "encoding") else { return nil }
        return String(
            declaration[word.upperBound...].drop { " \t\r\n=\"'".contains($0) }.prefix { !"\"' ?".contains($0) })
    }

    private static func isText(_ data: Data) -> Bool {
        let span = data.span
        guard (try? UTF8Span(validating: span)) != nil else { return false }
        return data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            bytes.baseAddress.map { memchr($0, 0, bytes.count) == nil } ?? true
        }
    }
}
