import Foundation
import FoundationNetworking
import FoundationXML

/// Parses XML into an `XMLDocument`. The counterpart of `AFXMLDocumentResponseSerializer`.
///
/// External entities are never loaded, whatever the options say: they would let a server read the client's files.
/// Otherwise as ``XMLParserResponseSerializer``.
public struct XMLDocumentResponseSerializer: HTTPResponseSerialization {
    /// What is acceptable, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: XMLParserResponseSerializer.contentTypes)
    /// How to read. Whatever would load an external entity is taken out.
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
        // libxml builds no deeper tree, and Foundation hides that it gave up: the rest would be missing without a word.
        return try http.xmlObject(
            for: response, data: data, maximumDepth: min(limits.maximumNestingDepth, 256)
        ) { try XMLDocument(data: $0, options: safe) }
    }
}
