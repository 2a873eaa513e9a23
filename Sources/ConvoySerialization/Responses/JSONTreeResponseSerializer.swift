import Foundation
import FoundationNetworking

/// JSON of any shape, as a ``JSON`` tree that loses nothing. Where a `JSON` is awaited, this makes it.
public struct JSONTreeResponseSerializer: HTTPResponseSerialization {
    /// What is acceptable, and the limits. The content types of ``JSONResponseSerializer``.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)

    /// A serializer that accepts the content types of ``JSONResponseSerializer``.
    public init() {}

    /// A ``JSON``, or nil for success with nothing.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; ``JSONSyntaxError``; a passed limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            guard let bytes = try http.json(data, response: response) else { return nil }
            return try http.tree(of: bytes, response)
        }
    }
}
