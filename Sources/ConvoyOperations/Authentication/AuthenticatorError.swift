import ConvoySupport
import Foundation

/// Why an operation has no token.
public enum AuthenticatorError: Error, Sendable {
    /// The refresh has failed, with this reason. Every operation that waited for it gets the same.
    case refreshFailed(reason: any Error)
    /// There were as many refreshes lately as the `Authenticator` allows. The reason is that of the last one that failed;
    /// nil if all succeeded and the server takes none of the tokens.
    case tooManyRefreshes(reason: (any Error)?)
    /// The token has characters that cannot be sent.
    case unusableToken
}

extension AuthenticatorError: LocalizedError, CustomStringConvertible {
    /// What has happened, and why.
    public var description: String {
        switch self {
        case .refreshFailed(let reason): "The token could not be refreshed: \(Self.text(reason))"
        case .tooManyRefreshes(let reason):
            "The token was refreshed too often."
                + (reason.map { " The last time it failed: \(Self.text($0))" } ?? " The server takes none of the tokens.")
        case .unusableToken: "The token has characters that cannot be sent (RFC 6750, section 2.1)."
        }
    }

    /// The same.
    public var errorDescription: String? { description }

    private static func text(_ error: any Error) -> String {
        (error as? any LocalizedError)?.errorDescription ?? (error as NSError).localizedDescription
    }
}
