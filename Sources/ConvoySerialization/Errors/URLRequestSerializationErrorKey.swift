/// The domain of every error that a request serializer makes itself. The counterpart of
/// `AFURLRequestSerializationErrorDomain`.
///
/// The codes are those of `NSURLErrorDomain`: `NSURLErrorBadURL` (-1000) for a URL that cannot be used,
/// `NSURLErrorCannotDecodeContentData` (-1016) for anything else that cannot be put into a request. The `userInfo`
/// has a `NSLocalizedFailureReasonErrorKey` in words and, under ``URLRequestSerializationErrorKey/reason``, a
/// ``RequestSerializationFailure`` for a program to tell them apart.
public let URLRequestSerializationErrorDomain = "com.alamofire.error.serialization.request"

/// The keys in the `userInfo` of errors in ``URLRequestSerializationErrorDomain``.
public enum URLRequestSerializationErrorKey {
    /// A ``RequestSerializationFailure``.
    public static let reason = "com.convoy.serialization.request.error.reason"
    /// The offending method, header name, file path or the like, as a `String`. Never a header's value, which can be
    /// a secret.
    public static let subject = "com.convoy.serialization.request.error.subject"
    /// `AFNetworkingOperationFailingURLRequestErrorKey`, spelled as there. For the `URLRequest` that failed, where
    /// an operation knows it.
    public static let failingURLRequest = "com.alamofire.serialization.request.error.response"
}
