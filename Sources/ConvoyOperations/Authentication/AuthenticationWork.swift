import ConvoySecurity
import ConvoyTransport
import Foundation

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
    var outcome: (after: Lifecycle.TryNumber, Settlement)?

    enum Settlement {
        case failure(any Error)
        /// The response that asked for credentials is the result.
        case heldResponse
    }
}
