import ConvoySupport
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

    /// A serializer with the rules of another, for a value that is awaited.
    package init(_ http: HTTPResponseSerializer, decoder: JSONDecoder) {
        self.http = http
        self.decoder = { decoder }
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

extension DecodableResponseSerializer {
    /// Whether a response is plainly acceptable, by its status and its content type alone: JSON in UTF-8. False is no
    /// verdict; then ``value(for:data:)`` judges.
    package func plainlyAccepts(statusCode: Int, contentType: String?, count: Int) -> Bool {
        guard http.acceptableStatusCodes?.contains(statusCode) ?? true, statusCode != 204, statusCode != 205,
            http.stringEncoding == .utf8, count > 0, count <= http.limits.maximumBodySize, let contentType,
            http.acceptableContentTypes?.contains("application/json") ?? true
        else { return false }
        return ["application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"].contains {
            ASCII.equalIgnoringCase($0.utf8, contentType.utf8)
        }
    }

    /// The value of a body whose response is plainly acceptable.
    package func value(ofPlain data: Data) throws -> Value? {
        guard let bytes = try http.json(data, response: nil) else { return nil }
        return try decoder().decode(Value.self, from: bytes)
    }
}

/// What of a ``DecodableResponseSerializer`` does not depend on its type.
package protocol PlainJSONAcceptance: Sendable {
    func plainlyAccepts(statusCode: Int, contentType: String?, count: Int) -> Bool
}

extension DecodableResponseSerializer: PlainJSONAcceptance {}
