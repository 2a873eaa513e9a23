import ConvoySupport
import Foundation
import FoundationNetworking

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
        if self is HTTPError { return HTTPError(domain: domain, code: code, userInfo: userInfo) }
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
        // The chain ends: errors are immutable, so it cannot be circular.
        while let error = next {
            if error.code == code && error.domain == domain { return true }
            next = error.userInfo[NSUnderlyingErrorKey] as? NSError
        }
        return false
    }
}
