/// The domain of all errors of Convoy's response serializers. The counterpart of
/// `AFURLResponseSerializationErrorDomain`.
///
/// `NSURLErrorBadServerResponse` (-1011) is an unacceptable status, `NSURLErrorCannotDecodeContentData` (-1016) an
/// unacceptable content type or text that cannot be decoded, `NSURLErrorDataLengthExceedsMaximum` (-1103) an exceeded
/// limit. If two things are wrong, the first is the `NSUnderlyingErrorKey` of the second.
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
