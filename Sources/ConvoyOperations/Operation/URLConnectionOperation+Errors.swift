import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that prepare the error of an operation for its users.
extension URLConnectionOperation {
    /// Returns the error with marked secrets redacted and with the reason why the request was not retried, if any.
    func explained(_ error: any Error) -> any Error {
        let error = hidingSecrets(in: decodable(error))
        guard let refusal = retryRefusal else { return error }
        let sentence = "The request was not retried: \(refusal.text)."
        func reason(_ userInfo: [String: Any]) -> String {
            (userInfo[NSLocalizedFailureReasonErrorKey] as? String).map { "\($0) \(sentence)" } ?? sentence
        }
        if let error = error as? URLError {
            var userInfo = error.userInfo
            userInfo[URLError.retryRefusalKey] = refusal
            userInfo[NSLocalizedFailureReasonErrorKey] = reason(userInfo)
            return URLError(error.code, describedBy: userInfo)
        }
        // Errors of other types pass through unchanged.
        guard type(of: error) is NSError.Type else { return error }
        let failure = error as NSError
        return failure.adding(refusal, for: URLError.retryRefusalKey)
            .adding(reason(failure.userInfo), for: NSLocalizedFailureReasonErrorKey)
    }

    /// Returns the error, which decodes its body with the manager's decoder if it is an `HTTPError`.
    func decodable(_ error: any Error) -> any Error {
        guard let refusal = error as? HTTPError, let decoder = settings.values.decoder else {
            return error
        }
        return refusal.decoding(by: decoder)
    }

    /// Returns the error with marked secrets redacted.
    private func hidingSecrets(in error: any Error) -> any Error {
        let secrets = connectionConfiguration.secrets
        guard secrets != .standard else { return error }
        if let error = error as? URLError { return error.hiding(secrets) }
        guard let error = error as? HTTPError else { return error }
        return error.adding(secrets, for: ErrorDescription.secretsKey)
    }
}

extension URLError {
    /// The `userInfo` key of an operation's error for the reason why its `RetryPolicy` did not retry the request, a
    /// `RetryEvent.Refusal`.
    public static let retryRefusalKey = "ConvoyRetryRefusal"
}
