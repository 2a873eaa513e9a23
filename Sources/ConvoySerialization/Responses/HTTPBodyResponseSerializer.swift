import Foundation
import FoundationNetworking

/// Parses bodies of the media type of a value, such as a patch. Where such a value is awaited, this makes it.
public struct HTTPBodyResponseSerializer<Value: HTTPBodyCodable>: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits. The content type is that of the value by default.
    public var http = HTTPResponseSerializer(contentTypes: [Value.mediaType])

    /// A serializer for a type.
    public init(_ type: Value.Type = Value.self) {}

    /// A serializer with the rules of another, for a value that is awaited. A response may have the type of the value too.
    package init(_ type: Value.Type, rules: HTTPResponseSerializer) {
        http = rules
        http.acceptableContentTypes?.insert(Value.mediaType)
    }

    /// A `Value`, or nil for a success without a body.
    ///
    /// The body of an error response is rarely a `Value`; it is parsed as JSON if possible, and the error is always the
    /// validation's.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; the error of the value; one for an exceeded limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        let isAcceptable = http.validationError(response, data: data) == nil
        return try http.responseObject(for: response, data: data) { data in
            if isAcceptable { return try Value(httpBody: data, limits: http.limits) }
            return try? JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed)
        }
    }
}
