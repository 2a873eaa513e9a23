/// The domain of every error that a response serializer makes itself. The counterpart of
/// `AFURLResponseSerializationErrorDomain`.
///
/// `NSURLErrorBadServerResponse` (-1011) is an unacceptable status, `NSURLErrorCannotDecodeContentData` (-1016) an
/// unacceptable content type or text that cannot be decoded, `NSURLErrorDataLengthExceedsMaximum` (-1103) a passed
/// limit. When two things are wrong, the first is the `NSUnderlyingErrorKey` of the second.
public let URLResponseSerializationErrorDomain = "com.alamofire.error.serialization.response"

/// The keys in the `userInfo` of errors in ``URLResponseSerializationErrorDomain``.
public enum URLResponseSerializationErrorKey {
    /// The `URLResponse`. The counterpart of `AFNetworkingOperationFailingURLResponseErrorKey`.
    public static let response = "com.alamofire.serialization.response.error.response"
    /// The body as `Data`. The counterpart of `AFNetworkingOperationFailingURLResponseDataErrorKey`.
    public static let data = "com.alamofire.serialization.response.error.data"
    /// What the serializer made of the body of a response that is an error. AFNetworking hands it over beside the
    /// error, which a function that throws cannot.
    public static let responseObject = "com.alamofire.serialization.response.error.object"
    /// A ``ResponseLimitExceeded``.
    public static let limit = "com.convoy.serialization.response.error.limit"
}
