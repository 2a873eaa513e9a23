import ConvoySupport
import Foundation
import FoundationNetworking

/// A response that is not acceptable: its status, its content type, its size, or a body that cannot be decoded.
///
/// ```swift
/// do {
///     let user: User = try await manager.get("users/1")
/// } catch let error as HTTPError where error.statusCode == 404 {
///     print("no such user:", try error.decoded(as: Problem.self).title)
/// }
/// ```
///
/// An `NSError` in ``URLResponseSerializationErrorDomain`` with AFNetworking's codes and keys. Its description is one
/// line, without headers and body.
public final class HTTPError: NSError, @unchecked Sendable {
    /// The response: its URL, status and headers.
    public var response: HTTPURLResponse? { userInfo[URLResponseSerializationErrorKey.response] as? HTTPURLResponse }

    /// The status code of the response. It can be a successful one, if only the content type is unacceptable.
    public var statusCode: Int? { response?.statusCode }

    /// The URL that the response came from.
    public var url: URL? { response?.url ?? userInfo[NSURLErrorFailingURLErrorKey] as? URL }

    /// The body of the response, if it has one.
    public var data: Data? { userInfo[URLResponseSerializationErrorKey.data] as? Data }

    /// The object that the serializer made from the body; nil if it could not parse the body.
    public var responseObject: Any? { userInfo[URLResponseSerializationErrorKey.responseObject] }

    /// The limit that the response exceeded; nil for other errors.
    public var exceededLimit: ResponseLimitExceeded? {
        userInfo[URLResponseSerializationErrorKey.limit] as? ResponseLimitExceeded
    }

    /// Why the body could not be decoded as the requested type; nil for other errors. The description of the error says
    /// it, with the place in the body.
    public var decodingError: DecodingError? { userInfo[NSUnderlyingErrorKey] as? DecodingError }

    /// The decoder of the manager; nil for an error that comes from a serializer alone.
    private var decoder: JSONDecoder?

    /// Decodes the body, for services that describe their errors in JSON.
    ///
    /// - Parameters:
    ///   - type: the type of the value.
    ///   - decoder: nil for the manager's `decoder`, or without a manager for a plain one.
    /// - Throws: `DecodingError`, also for a response without a body.
    public func decoded<Value: Decodable>(
        as type: Value.Type = Value.self, by decoder: JSONDecoder? = nil
    ) throws -> Value {
        if let value = responseObject as? Value { return value }
        var body = data ?? Data()
        let charset = Charset.ofJSON(body, label: response?.textEncodingName)
        if !charset.isUTF8, let text = charset.text(of: body) { body = Data(text.utf8) }
        return try (decoder ?? self.decoder ?? JSONDecoder()).decodeIndexed(type, from: body)
    }

    /// The same error with the decoder of a manager.
    package func decoding(by decoder: JSONDecoder) -> HTTPError {
        let error = HTTPError(domain: domain, code: code, userInfo: userInfo)
        error.decoder = decoder
        return error
    }

    /// The error for a body that is no value of a type.
    static func undecodable(
        _ error: DecodingError, as type: Any.Type, _ response: URLResponse?, data: Data
    ) -> NSError {
        let text = "The body is no \(type). \(ErrorDescription.text(of: error))"
        return NSError.response(NSURLErrorCannotDecodeContentData, text, response, data: data)
            .adding(error, for: NSUnderlyingErrorKey)
    }

    fileprivate func with(_ userInfo: [String: Any]) -> HTTPError {
        let error = HTTPError(domain: domain, code: code, userInfo: userInfo)
        error.decoder = decoder
        return error
    }

    public override var description: String { ErrorDescription.line(of: self) }

    /// The ``description``, and of a body that is text the first 200 bytes.
    public override var debugDescription: String {
        guard let data, !data.isEmpty, let text = String(data: data.prefix(200).wholeUTF8, encoding: .utf8) else {
            return description
        }
        return "\(description) Its body begins with: \(text.debugDescription)"
    }
}

extension Data {
    /// Without the beginning of a character at the end.
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
/// `NSURLErrorBadServerResponse` (-1011) is an unacceptable status, `NSURLErrorCannotDecodeContentData` (-1016) an
/// unacceptable content type or a body that cannot be decoded, `NSURLErrorDataLengthExceedsMaximum` (-1103) an exceeded
/// limit. If both status and content type are unacceptable, the error of the content type is the `NSUnderlyingErrorKey`
/// of the other.
public let URLResponseSerializationErrorDomain = "com.alamofire.error.serialization.response"

/// The keys in the `userInfo` of errors in ``URLResponseSerializationErrorDomain``.
public enum URLResponseSerializationErrorKey {
    /// The `URLResponse`. The counterpart of `AFNetworkingOperationFailingURLResponseErrorKey`.
    public static let response = "com.alamofire.serialization.response.error.response"
    /// The body as `Data`. The counterpart of `AFNetworkingOperationFailingURLResponseDataErrorKey`.
    public static let data = "com.alamofire.serialization.response.error.data"
    /// The object that the serializer made from the body of an error response. AFNetworking returns it together with
    /// the error, which a throwing function cannot.
    public static let responseObject = "com.alamofire.serialization.response.error.object"
    /// A ``ResponseLimitExceeded``.
    public static let limit = "com.convoy.serialization.response.error.limit"
}

extension Error {
    /// The object that the serializer made from the body of an error response, if there is one.
    public var serializedResponseObject: Any? {
        (self as NSError).userInfo[URLResponseSerializationErrorKey.responseObject]
    }
}

extension NSError {
    /// An error about a response, with the keys that AFNetworking gives it.
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

    /// The same error with one more value in its `userInfo`.
    package func adding(_ value: Any?, for key: String) -> NSError {
        guard let value else { return self }
        var userInfo = self.userInfo
        userInfo[key] = value
        if let error = self as? HTTPError { return error.with(userInfo) }
        return self is DescribedError
            ? DescribedError(domain: domain, code: code, userInfo: userInfo)
            : NSError(domain: domain, code: code, userInfo: userInfo)
    }

    /// This error with another as its underlying error, unless it already has one. The counterpart of
    /// `AFErrorWithUnderlyingError`.
    func over(_ underlying: NSError?) -> NSError {
        guard let underlying, userInfo[NSUnderlyingErrorKey] == nil else { return self }
        return adding(underlying, for: NSUnderlyingErrorKey)
    }

    /// Whether this error or one under it has this code and domain. The counterpart of
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
