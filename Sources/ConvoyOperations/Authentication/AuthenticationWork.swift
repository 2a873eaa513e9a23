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
    var tokenRetries = 0
    /// Whether a refresh was asked for because of a response to this operation.
    var hasAskedForRefresh = false
    /// What the try that follows a try has to do in place of sending the request.
    private(set) var outcome: (after: Lifecycle.TryNumber, Outcome)?
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

        /// Whether it says who the client is, as the operation's own request does: that was not taken away on the way.
        var hasAuthorization: Bool { request.value(forHTTPHeaderField: "Authorization") != nil }
    }

    /// Settles what the try after a try does. An answer that comes late, to an earlier try, changes nothing.
    func settle(_ outcome: Outcome, after number: Lifecycle.TryNumber) {
        if let known = self.outcome, Int16(bitPattern: number &- known.after) < 0 { return }
        self.outcome = (number, outcome)
    }

    /// What the try with this number has to do, if that was settled; asked once.
    func takeOutcome(for number: Lifecycle.TryNumber) -> Outcome? {
        guard let (earlier, outcome) = outcome.take(), earlier &+ 1 == number else { return nil }
        return outcome
    }

    enum Outcome {
        case failure(any Error)
        /// The response that asked for credentials is the result.
        case heldResponse
    }
}
