import ConvoySupport
import Foundation
import FoundationNetworking

/// Decodes JSON as a value of a type; several times as fast as ``JSONResponseSerializer``.
///
/// In place of a plain `JSONDecoder`, with any strategies but without JSON5, a faster decoder of this library decodes
/// the body and gives the same values and errors. A subclass of `JSONDecoder` is used as it is.
///
/// The body of an error response rarely is a `Value`. It is decoded as a `Value` if possible, or else as plain JSON;
/// the error is always the validation's, never that of decoding.
public struct DecodableResponseSerializer<Value: Decodable & Sendable>: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits. The content types are those of ``JSONResponseSerializer`` by
    /// default.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)
    /// Makes a decoder. Called for each response, as a `JSONDecoder` is a mutable object. With nil, the default, an
    /// operation of a manager decodes with the manager's `decoder`, and another one with a plain one.
    public var decoder: (@Sendable () -> JSONDecoder)?

    /// A serializer for a type, perhaps with a closure that makes decoders.
    public init(_ type: Value.Type = Value.self, decoder: (@Sendable () -> JSONDecoder)? = nil) {
        self.decoder = decoder
    }

    /// A serializer with the rules of another, for an async call that returns a `Value`.
    package init(_ http: HTTPResponseSerializer, decoder: JSONDecoder) {
        self.http = http
        self.decoder = { decoder }
    }

    private var usedDecoder: JSONDecoder { decoder?() ?? JSONDecoder() }

    /// A `Value`; nil for a success without a body.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; an ``HTTPError`` with the ``HTTPError/decodingError`` of
    ///   the decoder; an error for an exceeded limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try value(for: response, data: data)
    }

    /// ``responseObject(for:data:)`` with a typed result.
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
    /// Whether a response is obviously acceptable by its status and content type alone, as JSON in UTF-8. If false,
    /// ``value(for:data:)`` decides.
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

    /// The value of a body whose response is plainly acceptable.
    package func value(ofPlain data: Data) throws -> Value? {
        let decoder = usedDecoder
        return try decodeUTF8(data, by: decoder) ?? decode(data, nil, by: decoder)
    }

    /// Decodes a body that is not empty; nil for a single space.
    private func decode(_ data: Data, _ response: URLResponse?, by decoder: JSONDecoder) throws -> Value? {
        let bytes = try http.jsonText(data, response: response)
        // The fast decoder checks the syntax and the nesting itself.
        if let value = try decodeUTF8(bytes, by: decoder) { return value }
        guard let bytes = try http.checkedJSON(bytes, response: response) else { return nil }
        return try decoder.decode(Value.self, from: bytes)
    }

    /// Nil for a text that needs the checks of the slow path, or that only Foundation can decode.
    private func decodeUTF8(_ data: Data, by decoder: JSONDecoder) throws -> Value? {
        try decoder.decodePlain(Value.self, from: data, maximumDepth: http.limits.maximumNestingDepth)
    }
}

/// The part of ``DecodableResponseSerializer`` that does not depend on its type.
package protocol PlainJSONAcceptance: Sendable {
    func plainlyAccepts(statusCode: Int, contentType: String?, count: Int) -> Bool
}

extension DecodableResponseSerializer: PlainJSONAcceptance {}

/// A serializer that decodes with the decoder of a manager, unless it has one of its own.
package protocol ManagersDecoderTaking: HTTPResponseSerialization {
    /// The same serializer, which uses this decoder where it has none of its own.
    func taking(_ decoder: JSONDecoder) -> Self
}

extension DecodableResponseSerializer: ManagersDecoderTaking {
    package func taking(_ decoder: JSONDecoder) -> Self {
        var serializer = self
        if self.decoder == nil { serializer.decoder = { decoder } }
        return serializer
    }
}

/// A value with a media type of its own, such as a JSON Patch.
///
/// A manager's call that takes such a value as `body` sends it as this media type instead of plain JSON; an async call
/// that returns one parses a response of this media type with ``init(httpBody:limits:)``.
public protocol HTTPBodyCodable: Codable, Sendable {
    /// The media type of the body, such as `application/json-patch+json`.
    static var mediaType: String { get }

    /// Parses a body.
    ///
    /// - Parameters:
    ///   - httpBody: the bytes, after decompression. JSON, by the media type, is in UTF-8 whatever the server sent.
    ///   - limits: how deep the body may be nested. Its size has been checked.
    /// - Throws: an error that says why the body cannot be parsed.
    init(httpBody: Data, limits: ResponseLimits) throws

    /// The body.
    func httpBody() throws -> Data
}

/// Parses bodies of an ``HTTPBodyCodable`` value's media type. Async calls that return such a value use it.
public struct HTTPBodyResponseSerializer<Value: HTTPBodyCodable>: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits. The content type is that of the value by default.
    public var http = HTTPResponseSerializer(contentTypes: [Value.mediaType])

    /// A serializer for a type.
    public init(_ type: Value.Type = Value.self) {}

    /// A serializer with the rules of another, which also accepts the media type of the value.
    package init(_ type: Value.Type, rules: HTTPResponseSerializer) {
        http = rules
        http.acceptableContentTypes?.insert(Value.mediaType)
    }

    /// A `Value`, or nil for a success without a body.
    ///
    /// The body of an error response is rarely a `Value`; it is parsed as JSON if possible, and the error is always the
    /// validation's.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; the error of
    ///   ``HTTPBodyCodable/init(httpBody:limits:)``; an error for an exceeded limit.
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
