import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// What an operation has to do with who the client is. Few operations have one. Guarded by the operation's lock.
final class AuthenticationWork: @unchecked Sendable {
    /// What was asked and answered; nil until a server asks, or has asked others.
    var record: AuthenticationRecord?
    /// The token that the current try was sent with.
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
    /// What the try that follows a try has to do in place of sending the request.
    private(set) var settlement: (after: Lifecycle.TryNumber, Settlement)?
    /// Where the next tries begin, if they do not begin with the operation's own request.
    var continuation: Continuation?
    /// Whether nothing of the request's body was read by the last try.
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

    /// Settles what the try after a try does. An answer that comes late, to an earlier try, changes nothing.
    func settle(_ settlement: Settlement, after number: Lifecycle.TryNumber) {
        if let known = self.settlement, Int16(bitPattern: number &- known.after) < 0 { return }
        self.settlement = (number, settlement)
    }

    /// What the try with this number has to do, if that was settled; asked once.
    func takeSettlement(for number: Lifecycle.TryNumber) -> Settlement? {
        guard let (earlier, settlement) = settlement.take(), earlier &+ 1 == number else { return nil }
        return settlement
    }

    enum Settlement {
        case failure(any Error)
        /// The response that asked for credentials is the result.
        case heldResponse
    }
}
