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
