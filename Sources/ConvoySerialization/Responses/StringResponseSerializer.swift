import Foundation
import FoundationNetworking

/// Decodes the body as text, in the charset that the response names or else in `stringEncoding`.
///
/// AFNetworking has no counterpart; its users decode the data of an `AFHTTPResponseSerializer`. By default any content
/// type is acceptable. A byte-order mark decides the encoding and is not part of the text.
public struct StringResponseSerializer: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits.
    public var http = HTTPResponseSerializer()

    /// A serializer that accepts any content type.
    public init() {}

    /// A `String`; nil for 204, 205 and no body at all, empty for an empty body.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; -1016 for bytes that cannot be decoded; an error for
    ///   an exceeded limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        let object = try http.responseObject(for: response, data: data) { data in
            try http.text(data, response: response)
        }
        if object == nil, let data, data.isEmpty, !http.hasNoContent(response) { return "" }
        return object
    }
}
