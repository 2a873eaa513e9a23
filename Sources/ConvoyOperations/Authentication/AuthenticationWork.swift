import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// What an operation has to do with who the client is. Few operations have one. Guarded by the operation's lock.
final class AuthenticationWork: @unchecked Sendable {
    /// What was asked and answered; nil until a server asks, or has asked others.
    var record: AuthenticationRecord?
    /// The token that the current attempt was sent with.
    var token: Authenticator.Grant?
    /// How often the request was sent again for a newer token.
    private(set) var tokenRetries = 0
    /// Whether a refresh was asked for because of a response to this operation.
    private(set) var hasAskedForRefresh = false

    /// How often in all that may be.
    private static let mostTokenRetries = 3

    var mayRetryForToken: Bool { tokenRetries < Self.mostTokenRetries }

    func noteTokenRetry(afterRefresh: Bool) {
        tokenRetries += 1
        if afterRefresh { hasAskedForRefresh = true }
    }
    /// Where the next attempts begin, if they do not begin with the operation's own request.
    var continuation: Continuation?
    /// Whether nothing of the request's body was read by the last attempt.
    var isBodyUnread = false

    func takeIsBodyUnread() -> Bool {
        defer { isBodyUnread = false }
        return isBodyUnread
    }

    /// The request to which redirects have led before somebody asked who the client is. What was sent before it is not
    /// sent again: a form was posted, say, and the page that follows asks.
    struct Continuation {
        let request: URLRequest
        let place: RedirectContinuation
        let redirects: [RedirectEvent]
        /// Whether it has the token of the operation's own request, which was not taken away on the way.
        let bearsToken: Bool
    }

    /// Whether a request to which redirects have led has the token.
    func bearsToken(_ request: URLRequest) -> Bool {
        guard let token, let value = BearerAuthorization.value(token: token.token.value) else { return false }
        return request.value(forHTTPHeaderField: "Authorization") == value
    }
}
