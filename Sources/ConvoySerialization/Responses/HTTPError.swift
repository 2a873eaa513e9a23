import ConvoySupport
import Foundation
import FoundationNetworking

/// An error for a response that is not acceptable because of its status, content type or size, or because its body
/// cannot be decoded.
///
/// ```swift
/// do {
///     let user: User = try await manager.get("users/1")
/// } catch let error as HTTPError where error.statusCode == 404 {
///     print("no such user:", try error.decoded(as: Problem.self).title)
/// }
/// ```
///
/// The error is an `NSError` in ``URLResponseSerializationErrorDomain`` with AFNetworking's codes and keys. Its
/// description is a single line, without the headers or the body.
public final class HTTPError: NSError, @unchecked Sendable {
    /// The response, with its URL, status and headers.
    public var response: HTTPURLResponse? { userInfo[URLResponseSerializationErrorKey.response] as? HTTPURLResponse }

    /// The status code of the response. If only the content type is unacceptable, the code can indicate success.
    public var statusCode: Int? { response?.statusCode }

    /// The URL of the response, or, without a response, the URL that failed.
    public var url: URL? { response?.url ?? userInfo[NSURLErrorFailingURLErrorKey] as? URL }

    /// The body of the response, if it has one.
    public var data: Data? { userInfo[URLResponseSerializationErrorKey.data] as? Data }

    /// The object that the serializer created from the body; nil if the body could not be parsed.
    public var responseObject: Any? { userInfo[URLResponseSerializationErrorKey.responseObject] }

    /// The limit that the response exceeded; nil for other errors.
    public var exceededLimit: ResponseLimitExceeded? {
        userInfo[URLResponseSerializationErrorKey.limit] as? ResponseLimitExceeded
    }

    /// The reason why the body could not be decoded as the requested type, including the location in the body; nil for
    /// other errors. It is part of the error's description.
    public var decodingError: DecodingError? { userInfo[NSUnderlyingErrorKey] as? DecodingError }

    /// The manager's decoder; nil if the error was created by a serializer alone.
    private var decoder: JSONDecoder?

    /// Decodes the body. Use this method for services that describe errors in JSON.
    ///
    /// - Parameters:
    ///   - type: The type of the value.
    ///   - decoder: The decoder. If nil, uses the manager's `decoder` or, without a manager, a plain decoder.
    /// - Throws: `DecodingError`, which is also thrown if the response has no body.
    public func decoded<Value: Decodable>(
        as type: Value.Type = Value.self, by decoder: JSONDecoder? = nil
    ) throws -> Value {
        if let value = responseObject as? Value { return value }
        var body = data ?? Data()
        let charset = Charset.ofJSON(body, label: response?.textEncodingName)
        if !charset.isUTF8, let text = charset.text(of: body) { body = Data(text.utf8) }
        return try (decoder ?? self.decoder ?? JSONDecoder()).decodeIndexed(type, from: body)
    }

    /// Returns the error with a manager's decoder.
    package func decoding(by decoder: JSONDecoder) -> HTTPError {
        let error = HTTPError(domain: domain, code: code, userInfo: userInfo)
        error.decoder = decoder
        return error
    }

    /// Returns the error for a body that cannot be decoded as a type.
    static func undecodable(
        _ error: DecodingError, as type: Any.Type, _ response: URLResponse?, data: Data
    ) -> NSError {
        let text = "The body cannot be decoded as \(type). \(ErrorDescription.text(of: error))"
        return NSError.response(NSURLErrorCannotDecodeContentData, text, response, data: data)
            .adding(error, for: NSUnderlyingErrorKey)
    }

    fileprivate func with(_ userInfo: [String: Any]) -> HTTPError {
        let error = HTTPError(domain: domain, code: code, userInfo: userInfo)
        error.decoder = decoder
        return error
    }

    public override var description: String { ErrorDescription.line(of: self) }

    /// The ``description``, and the first 200 bytes of the body if it is text.
    public override var debugDescription: String {
        guard let data, !data.isEmpty, let text = String(data: data.prefix(200).wholeUTF8, encoding: .utf8) else {
            return description
        }
        return "\(description) Its body begins with: \(text.debugDescription)"
    }
}

extension Data {
    /// The data without an incomplete character at its end.
    fileprivate var wholeUTF8: Data {
        let last: Index = suffix(4).lastIndex { $0 & 0xC0 != 0x80 } ?? endIndex
        guard last < endIndex, self[last] >= 0xC0 else { return self }
        let length = self[last] >= 0xF0 ? 4 : self[last] >= 0xE0 ? 3 : 2
        return endIndex - last < length ? prefix(upTo: last) : self
    }
}

/// The domain of all errors of Convoy's response serializers. The counterpart of
/// `AFURLResponseSerializationErrorDomain`.
///
/// The codes are `NSURLErrorBadServerResponse` (-1011) for an unacceptable status, `NSURLErrorCannotDecodeContentData`
/// (-1016) for an unacceptable content type or a body that cannot be decoded, and `NSURLErrorDataLengthExceedsMaximum`
/// (-1103) for an exceeded limit. If both the status and the content type are unacceptable, the error for the content
/// type is the `NSUnderlyingErrorKey` of the error for the status.
public let URLResponseSerializationErrorDomain = "com.alamofire.error.serialization.response"

/// The keys in the `userInfo` of errors in ``URLResponseSerializationErrorDomain``.
public enum URLResponseSerializationErrorKey {
    /// The key of the `URLResponse`. The counterpart of `AFNetworkingOperationFailingURLResponseErrorKey`.
    public static let response = "com.alamofire.serialization.response.error.response"
    /// The key of the body as `Data`. The counterpart of `AFNetworkingOperationFailingURLResponseDataErrorKey`.
    public static let data = "com.alamofire.serialization.response.error.data"
    /// The key of the object that the serializer created from the body of an error response. AFNetworking returns the
    /// object together with the error, which a throwing function cannot do.
    public static let responseObject = "com.alamofire.serialization.response.error.object"
    /// The key of a ``ResponseLimitExceeded``.
    public static let limit = "com.convoy.serialization.response.error.limit"
}

extension Error {
    /// The object that the serializer created from the body of an error response, if any.
    public var serializedResponseObject: Any? {
        (self as NSError).userInfo[URLResponseSerializationErrorKey.responseObject]
    }
}

extension NSError {
    /// Creates an error for a response, with AFNetworking's keys.
    package static func response(_ code: Int, _ description: String, _ response: URLResponse?, data: Data?) -> NSError {
        var userInfo: [String: Any] = [NSLocalizedDescriptionKey: description]
        userInfo[NSURLErrorFailingURLErrorKey] = response?.url
        userInfo[URLResponseSerializationErrorKey.response] = response
        userInfo[URLResponseSerializationErrorKey.data] = data
        userInfo[NSLocalizedFailureReasonErrorKey] = description
        return HTTPError(domain: URLResponseSerializationErrorDomain, code: code, userInfo: userInfo)
    }

    package static func limit(_ limit: ResponseLimitExceeded, _ description: String, _ response: URLResponse?) -> NSError {
        NSError.response(NSURLErrorDataLengthExceedsMaximum, description, response, data: nil)
            .adding(limit, for: URLResponseSerializationErrorKey.limit)
    }

    /// Returns the error with a value added to its `userInfo`.
    package func adding(_ value: Any?, for key: String) -> NSError {
        guard let value else { return self }
        var userInfo = self.userInfo
        userInfo[key] = value
        if let error = self as? HTTPError { return error.with(userInfo) }
        return self is DescribedError
            ? DescribedError(domain: domain, code: code, userInfo: userInfo)
            : NSError(domain: domain, code: code, userInfo: userInfo)
    }

    /// Returns the error with the given underlying error, unless it already has one. The counterpart of
    /// `AFErrorWithUnderlyingError`.
    func over(_ underlying: NSError?) -> NSError {
        guard let underlying, userInfo[NSUnderlyingErrorKey] == nil else { return self }
        return adding(underlying, for: NSUnderlyingErrorKey)
    }

    /// Returns whether this error or one of its underlying errors has this code and domain. The counterpart of
    /// `AFErrorOrUnderlyingErrorHasCodeInDomain`.
    func has(code: Int, in domain: String) -> Bool {
        var next: NSError? = self
        // Errors are immutable, so the chain of underlying errors cannot be circular.
        while let error = next {
            if error.code == code && error.domain == domain { return true }
            next = error.userInfo[NSUnderlyingErrorKey] as? NSError
        }
        return false
    }
}
