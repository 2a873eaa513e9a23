import Foundation
import FoundationNetworking

/// JSON as a value of a type; about twice as fast as ``JSONResponseSerializer``.
///
/// An error response seldom has the shape of the answer that was hoped for. Its body is tried as `Value`, then as
/// plain JSON; the error is always the validation's, and not that the body did not fit.
public struct DecodableResponseSerializer<Value: Decodable & Sendable>: HTTPResponseSerialization {
    /// What is acceptable, and the limits. The content types of ``JSONResponseSerializer``.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)
    /// Makes the decoder. It is called for each response, because a `JSONDecoder` is an object that can be changed.
    public var decoder: @Sendable () -> JSONDecoder

    /// A serializer for a type, with a closure that makes decoders.
    public init(
        _ type: Value.Type = Value.self, decoder: @escaping @Sendable () -> JSONDecoder = { JSONDecoder() }
    ) {
        self.decoder = decoder
    }

    /// A `Value`, or nil for success with nothing.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; the decoder's `DecodingError`; a passed limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try value(for: response, data: data)
    }

    /// ``responseObject(for:data:)`` with its type.
    public func value(for response: URLResponse?, data: Data?) throws -> Value? {
        let acceptable = http.validationError(response, data: data) == nil
        let object = try http.responseObject(for: response, data: data) { data in
            if acceptable {
                guard let bytes = try http.json(data, response: response) else { return nil }
                return try decoder().decode(Value.self, from: bytes)
            }
            guard let bytes = try? http.json(data, response: response) else { return nil }
            if let value = try? decoder().decode(Value.self, from: bytes) { return value }
            return try? JSONSerialization.jsonObject(with: bytes, options: .fragmentsAllowed)
        }
        return object as? Value
    }
}
