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
