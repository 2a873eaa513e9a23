import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The authentication state of an operation, created only for the few operations that need it. The operation's lock
/// guards it.
final class AuthenticationWork: @unchecked Sendable {
    /// The challenges and answers; nil before the first challenge.
    var record: AuthenticationRecord?
    /// The token sent with the current attempt.
    var token: Authenticator.Grant?
    /// The number of times that the request was sent again because its token was refused.
    private(set) var tokenRetries = 0
    /// Whether a response to this operation has caused a refresh.
    private(set) var hasAskedForRefresh = false
    /// The request from which the next attempts start, if it is not the operation's own request.
    var continuation: Continuation?
    /// Whether the last attempt has not read any of the request's body.
    var isBodyUnread = false

    /// The maximum value of `tokenRetries`.
    private static let mostTokenRetries = 3

    var mayRetryForToken: Bool { tokenRetries < Self.mostTokenRetries }

    func noteTokenRetry(afterRefresh: Bool) {
        tokenRetries += 1
        if afterRefresh { hasAskedForRefresh = true }
    }

    /// The request at the end of the redirects that preceded a challenge. Earlier requests are not sent again, because
    /// one of them may have posted a form before it was redirected to a page that requires authentication.
    struct Continuation {
        let request: URLRequest
        let place: RedirectContinuation
        let redirects: [RedirectEvent]
        /// Whether the request still carries the token of the operation's own request, which a redirect may remove.
        let bearsToken: Bool
    }

    /// Returns whether a request that follows redirects carries the token.
    func bearsToken(_ request: URLRequest) -> Bool {
        guard let token, let value = BearerAuthorization.value(token: token.token.value) else { return false }
        return request.value(forHTTPHeaderField: "Authorization") == value
    }
}

extension OperationCore {
    /// Returns the token refused by a 401, and whether this operation has already requested a refresh; nil if no token
    /// was refused or the maximum number of retries is reached.
    func refusedToken(of attempt: Attempt) -> (token: RejectedToken, hasAsked: Bool)? {
        guard let authenticator, let authentication = self.authentication, let grant = authentication.token,
            authentication.mayRetryForToken
        else { return nil }
        // A redirect to another origin removes the token, and a redirect back does not restore it. For a shared
        // transfer, only the redirects are known.
        let isRemoved = self.redirects?.contains { redirect in
            redirect.removedFields.contains { HTTPSyntax.isSameField($0.name, "Authorization") }
        }
        let wasSent = (attempt.rare.redirection?.request).map(authentication.bearsToken) ?? (isRemoved != true)
        guard wasSent else { return nil }
        return (RejectedToken(authenticator: authenticator, grant: grant), authentication.hasAskedForRefresh)
    }
}
