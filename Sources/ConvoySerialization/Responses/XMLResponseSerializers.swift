import ConvoySupport
import Foundation
import FoundationNetworking
import FoundationXML

/// A serializer that returns an `XMLParser`, not yet started, for an XML body. The counterpart of
/// `AFXMLParserResponseSerializer`.
///
/// The body is validated first, so malformed input throws an error. (On Linux, `XMLParser.parse()` does not report
/// malformed input.) External entities are not loaded. A document type that contains declarations is an error, because
/// entities can expand to any amount of text.
public struct XMLParserResponseSerializer: HTTPResponseSerialization {
    /// The content types accepted by default.
    public static let contentTypes: Set<String> = ["application/xml", "text/xml"]

    /// The acceptable responses, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: XMLParserResponseSerializer.contentTypes)

    /// Creates a serializer that accepts ``contentTypes``.
    public init() {}

    /// Returns an `XMLParser` without a delegate; nil for the statuses 204 and 205, a nil body, and a single space.
    ///
    /// - Throws: The errors of ``HTTPResponseSerializer/validate(_:data:)``; an error in `XMLParser.errorDomain` if the
    ///   input is empty or malformed; an error if a limit is exceeded.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.xmlObject(for: response, data: data, maximumDepth: limits.maximumNestingDepth) { bytes in
            let parser = XMLParser(data: bytes)
            parser.shouldResolveExternalEntities = false
            return parser
        }
    }
}

/// A serializer that parses XML into an `XMLDocument`. The counterpart of `AFXMLDocumentResponseSerializer`.
///
/// External entities are never loaded, regardless of the options, because they would let a server read the client's
/// files. Otherwise, the serializer behaves like ``XMLParserResponseSerializer``.
public struct XMLDocumentResponseSerializer: HTTPResponseSerialization {
    /// The acceptable responses, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: XMLParserResponseSerializer.contentTypes)
    /// The parser's options. Options that would load external entities are removed.
    public var options: XMLNode.Options

    /// Creates a serializer that accepts the content types of ``XMLParserResponseSerializer``.
    public init(options: XMLNode.Options = []) {
        self.options = options
    }

    /// Returns an `XMLDocument`; nil for the statuses 204 and 205, a nil body, and a single space.
    ///
    /// - Throws: The errors of ``XMLParserResponseSerializer/responseObject(for:data:)``.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        var safe = options
        safe.subtract([
            .nodeLoadExternalEntitiesAlways, .nodeLoadExternalEntitiesSameOriginOnly, .documentValidate,
            .documentXInclude,
        ])
        safe.insert(.nodeLoadExternalEntitiesNever)
        // libxml2 stops at 256 levels, and Foundation hides the error, so deeper elements would be silently missing.
        return try http.xmlObject(
            for: response, data: data, maximumDepth: min(limits.maximumNestingDepth, 256)
        ) { try XMLDocument(data: $0, options: safe) }
    }
}

extension HTTPResponseSerializer {
    /// Creates the object for a document after inspecting it, as all XML serializers do.
    func xmlObject(
        for response: URLResponse?, data: Data?, maximumDepth: Int, making make: (Data) throws -> Any
    ) throws -> Any? {
        let object = try responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            let document = try XMLEncoding.utf8(
                of: data, label: response?.textEncodingName, otherwise: Charset(stringEncoding))
            return try make(inspected(document, maximumDepth: maximumDepth, response: response))
        }
        // For JSON, an empty body is a success, as in AFNetworking. It is not a valid XML document.
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
                .declarations, "The document type contains declarations, which are not allowed because they could expand.",
                response)
        } catch .tooManyNames {
            throw NSError.limit(
                .names, "The document has too many attributes in one tag, too many namespaces, or too many names.", response)
        } catch .malformed(let error) {
            throw error
        }
    }
}
