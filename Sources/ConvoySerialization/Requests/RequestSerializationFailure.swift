import ConvoySupport
import Foundation

/// Why a request could not be made.
public enum RequestSerializationFailure: String, Sendable, Hashable {
    /// The method is not a token (RFC 9110, section 5.6.2), or is not possible for this kind of request.
    case invalidMethod
    /// A header name is not a token.
    case invalidHeaderName
    /// A header value contains a control character, such as a line break.
    case invalidHeaderValue
    /// A header is given twice, in spellings that differ only in case.
    case repeatedHeader
    /// A user name with a colon cannot be sent with Basic authorization (RFC 7617, section 2).
    case invalidUserName
    /// The URL is missing, or invalid with the query added.
    case invalidURL
    /// The parameters cannot be expressed in this format.
    case invalidParameters
    /// The parameters are nested deeper than ``Parameter/maximumDepth``.
    case parametersTooDeep
    /// Text cannot be expressed in the serializer's string encoding.
    case invalidText
    /// A URL is not a file URL, or its file cannot be read.
    case unusableFile
    /// A part of a multipart form has a name, type or length that cannot be sent.
    case invalidPart
    /// The body could not be compressed.
    case compressionFailed
}

extension NSError {
    static func request(
        _ failure: RequestSerializationFailure, _ reason: String, subject: String? = nil,
        code: Int = NSURLErrorCannotDecodeContentData, underlying: (any Error)? = nil
    ) -> NSError {
        var userInfo: [String: Any] = [
            NSLocalizedFailureReasonErrorKey: reason,
            NSLocalizedDescriptionKey: reason,
            URLRequestSerializationErrorKey.reason: failure,
        ]
        userInfo[URLRequestSerializationErrorKey.subject] = subject
        userInfo[NSUnderlyingErrorKey] = underlying.map { $0 as NSError }
        return DescribedError(domain: URLRequestSerializationErrorDomain, code: code, userInfo: userInfo)
    }

    static func badURL(_ url: URL?) -> NSError {
        request(
            .invalidURL, url == nil ? "The request has no URL." : "The URL cannot be used.",
            subject: url.map { Redaction.url($0.absoluteString) }, code: NSURLErrorBadURL)
    }
}

/// The domain of all errors of Convoy's request serializers. The counterpart of `AFURLRequestSerializationErrorDomain`.
///
/// The codes are those of `NSURLErrorDomain`: `NSURLErrorBadURL` (-1000) for a URL that cannot be used,
/// `NSURLErrorCannotDecodeContentData` (-1016) for anything else that cannot be put into a request. The `userInfo`
/// has a description under `NSLocalizedFailureReasonErrorKey` and a ``RequestSerializationFailure`` under
/// ``URLRequestSerializationErrorKey/reason``.
public let URLRequestSerializationErrorDomain = "com.alamofire.error.serialization.request"

/// The keys in the `userInfo` of errors in ``URLRequestSerializationErrorDomain``.
public enum URLRequestSerializationErrorKey {
    /// A ``RequestSerializationFailure``.
    public static let reason = "com.convoy.serialization.request.error.reason"
    /// The offending method, header name, file path or the like, as a `String`. Never a header's value, which can be
    /// a secret.
    public static let subject = "com.convoy.serialization.request.error.subject"
    /// The `URLRequest` that failed, if an operation knows it. The same key as
    /// `AFNetworkingOperationFailingURLRequestErrorKey`.
    public static let failingURLRequest = "com.alamofire.serialization.request.error.response"
}
