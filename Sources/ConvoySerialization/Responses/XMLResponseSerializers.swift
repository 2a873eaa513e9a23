import Foundation
import FoundationNetworking
import FoundationXML

/// XML as an `XMLParser` that was not started; `AFXMLParserResponseSerializer`.
///
/// The body is read through once beforehand, so that malformed input is an error here; `XMLParser.parse()` does not
/// tell on Linux. External entities are not loaded, and a document type declaration with declarations of its own is an
/// error, because entities can stand for any amount of text.
public struct XMLParserResponseSerializer: HTTPResponseSerialization {
    /// The types that are accepted at first.
    public static let contentTypes: Set<String> = ["application/xml", "text/xml"]

    /// What is acceptable, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: XMLParserResponseSerializer.contentTypes)

    /// A serializer that accepts ``contentTypes``.
    public init() {}

    /// An `XMLParser` with no delegate; nil for 204, 205, no body, and a single space.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; an error in `XMLParser.errorDomain` for empty or
    ///   malformed input; a passed limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        let rules = XMLWellFormedness(maximumDepth: limits.maximumNestingDepth)
        return try http.xmlObject(for: response, data: data, rules: rules) { bytes in
            let parser = XMLParser(data: bytes)
            parser.shouldResolveExternalEntities = false
            return parser
        }
    }
}

/// XML as an `XMLDocument`; `AFXMLDocumentResponseSerializer`.
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
        let rules = XMLWellFormedness(maximumDepth: min(limits.maximumNestingDepth, 256))
        return try http.xmlObject(for: response, data: data, rules: rules) { try XMLDocument(data: $0, options: safe) }
    }
}

extension HTTPResponseSerializer {
    fileprivate func xmlObject(
        for response: URLResponse?, data: Data?, rules: XMLWellFormedness, making make: (Data) throws -> Any
    ) throws -> Any? {
        let object = try responseObject(for: response, data: data) { data in
            try xml(data, response: response, rules: rules).map(make)
        }
        // An empty body is success with nothing in JSON, by AFNetworking's rule. It is no XML document.
        if object == nil, let data, data.isEmpty, !hasNoContent(response) {
            try check(data, rules: rules, response: response)
        }
        return object
    }
}
