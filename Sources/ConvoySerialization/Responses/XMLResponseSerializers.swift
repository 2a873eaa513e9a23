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
            let document = try XMLEncoding.utf8(
                of: data, label: response?.textEncodingName, otherwise: Charset(stringEncoding))
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
