import ConvoySupport
import Foundation
import FoundationNetworking

/// A serializer that decodes JSON as a value of a type, several times as fast as ``JSONResponseSerializer``.
///
/// A plain `JSONDecoder`, with any strategies but without JSON5, is replaced by a faster decoder that returns the same
/// values and errors. Subclasses of `JSONDecoder` are used directly.
///
/// The body of an error response is rarely a `Value`. It is decoded as a `Value` if possible, and as plain JSON
/// otherwise. The error thrown is always the validation error, never a decoding error.
public struct DecodableResponseSerializer<Value: Decodable & Sendable>: HTTPResponseSerialization {
    /// The acceptable responses, and the limits. By default, the content types are those of ``JSONResponseSerializer``.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)
    /// The closure that creates a decoder. It is called for each response, because a `JSONDecoder` is a mutable object.
    /// If nil, the default, a manager's operations use the manager's `decoder`, and other operations use a plain
    /// decoder.
    public var decoder: (@Sendable () -> JSONDecoder)?

    /// Creates a serializer for a type, with an optional closure that creates decoders.
    public init(_ type: Value.Type = Value.self, decoder: (@Sendable () -> JSONDecoder)? = nil) {
        self.decoder = decoder
    }

    /// Creates a serializer with another serializer's rules, for an async call that returns a `Value`.
    package init(_ http: HTTPResponseSerializer, decoder: JSONDecoder) {
        self.http = http
        self.decoder = { decoder }
    }

    private var usedDecoder: JSONDecoder { decoder?() ?? JSONDecoder() }

    /// Returns a `Value`; nil for a success without a body.
    ///
    /// - Throws: The errors of ``HTTPResponseSerializer/validate(_:data:)``; an ``HTTPError`` with the
    ///   ``HTTPError/decodingError`` of the decoder; an error if a limit is exceeded.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try value(for: response, data: data)
    }

    /// Returns the same value as ``responseObject(for:data:)``, with its type.
    public func value(for response: URLResponse?, data: Data?) throws -> Value? {
        let acceptable = http.validationError(response, data: data) == nil
        if acceptable { try http.checkKeys(of: data, response) }
        let object = try http.responseObject(for: response, data: data) { data in
            if acceptable {
                do {
                    return try decode(data, response, by: usedDecoder)
                } catch let error as DecodingError {
                    throw HTTPError.undecodable(error, as: Value.self, response, data: data)
                }
            }
            if let value = try? decode(data, response, by: usedDecoder) { return value }
            guard let bytes = try? http.json(data, response: response) else { return nil }
            return try? JSONFoundationObject.parse(bytes, options: .fragmentsAllowed)
        }
        return object as? Value
    }
}

extension DecodableResponseSerializer {
    /// Returns whether the status and content type alone show that a response is acceptable, as JSON in UTF-8. If
    /// false, ``value(for:data:)`` decides.
    package func plainlyAccepts(statusCode: Int, contentType: String?, count: Int) -> Bool {
        guard http.acceptableStatusCodes?.contains(statusCode) ?? true, !http.limits.rejectsDuplicateKeys, statusCode != 204,
            statusCode != 205,
            http.stringEncoding == .utf8, count > 0, count <= http.limits.maximumBodySize, let contentType,
            http.acceptableContentTypes?.contains("application/json") ?? true
        else { return false }
        return ["application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"].contains {
            ASCII.equalIgnoringCase($0.utf8, contentType.utf8)
        }
    }

    /// Returns the value of a body whose response has been found acceptable by its status and content type alone.
    package func value(ofPlain data: Data) throws -> Value? {
        let decoder = usedDecoder
        return try decodeUTF8(data, by: decoder) ?? decode(data, nil, by: decoder)
    }

    /// Decodes a body that is not empty. Returns nil for a single space.
    private func decode(_ data: Data, _ response: URLResponse?, by decoder: JSONDecoder) throws -> Value? {
        let bytes = try http.jsonText(data, response: response)
        // The fast decoder also checks the syntax and the nesting.
        if let value = try decodeUTF8(bytes, by: decoder) { return value }
        guard let bytes = try http.checkedJSON(bytes, response: response) else { return nil }
        return try decoder.decode(Value.self, from: bytes)
    }

    /// Decodes a body with the fast decoder. Returns nil if the text requires the checks of the slow path, or if only
    /// Foundation can decode it.
    private func decodeUTF8(_ data: Data, by decoder: JSONDecoder) throws -> Value? {
        try decoder.decodePlain(Value.self, from: data, maximumDepth: http.limits.maximumNestingDepth)
    }
}

/// The requirements for decoding JSON that do not depend on the type of the value.
package protocol DirectJSONDecoding: Sendable {
    func plainlyAccepts(statusCode: Int, contentType: String?, count: Int) -> Bool
}

extension DecodableResponseSerializer: DirectJSONDecoding {}

/// A serializer that decodes with a manager's decoder, unless it has its own.
package protocol DecoderInheriting: HTTPResponseSerialization {
    /// Returns the serializer with the given decoder, unless the serializer has its own.
    func taking(_ decoder: JSONDecoder) -> Self
}

extension DecodableResponseSerializer: DecoderInheriting {
    package func taking(_ decoder: JSONDecoder) -> Self {
        var serializer = self
        if self.decoder == nil { serializer.decoder = { decoder } }
        return serializer
    }
}

/// A value with its own media type, for example a JSON Patch.
///
/// If a manager's call takes such a value as `body`, it sends the value with this media type instead of plain JSON. An
/// async call that returns such a value parses responses of this media type with ``init(httpBody:limits:)``.
public protocol HTTPBodyCodable: Codable, Sendable {
    /// The media type of the body, for example `application/json-patch+json`.
    static var mediaType: String { get }

    /// Parses a body.
    ///
    /// - Parameters:
    ///   - httpBody: The bytes, after decompression. If the media type is JSON, they have been converted to UTF-8.
    ///   - limits: The limits. The implementation must check the nesting depth. The size has already been checked.
    /// - Throws: An error that describes why the body cannot be parsed.
    init(httpBody: Data, limits: ResponseLimits) throws

    /// Returns the bytes of the body.
    func httpBody() throws -> Data
}

/// A serializer for bodies with the media type of an ``HTTPBodyCodable`` value. It is used by async calls that return
/// such a value.
public struct HTTPBodyResponseSerializer<Value: HTTPBodyCodable>: HTTPResponseSerialization {
    /// The acceptable responses, and the limits. By default, the content type is the media type of the value.
    public var http = HTTPResponseSerializer(contentTypes: [Value.mediaType])

    /// Creates a serializer for a type.
    public init(_ type: Value.Type = Value.self) {}

    /// Creates a serializer with another serializer's rules that also accepts the media type of the value.
    package init(_ type: Value.Type, rules: HTTPResponseSerializer) {
        http = rules
        http.acceptableContentTypes?.insert(Value.mediaType)
    }

    /// Returns a `Value`; nil for a success without a body.
    ///
    /// The body of an error response is rarely a `Value`. It is parsed as JSON if possible, and the error thrown is
    /// always the validation error.
    ///
    /// - Throws: The errors of ``HTTPResponseSerializer/validate(_:data:)``; the error of
    ///   ``HTTPBodyCodable/init(httpBody:limits:)``; an error if a limit is exceeded.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        let isAcceptable = http.validationError(response, data: data) == nil
        return try http.responseObject(for: response, data: data) { data in
            if isAcceptable {
                let isJSON = Value.mediaType.hasSuffix("json")
                return try Value(
                    httpBody: isJSON ? http.jsonText(data, response: response) : data, limits: http.limits)
            }
            guard let bytes = try? http.json(data, response: response) else { return nil }
            return try? JSONFoundationObject.parse(bytes, options: .fragmentsAllowed)
        }
    }
}
