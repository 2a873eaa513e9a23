import Foundation
import FoundationNetworking
import FoundationXML

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
