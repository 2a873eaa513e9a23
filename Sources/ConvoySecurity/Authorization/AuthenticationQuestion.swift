import Foundation
import FoundationNetworking

/// A challenge that a server or a proxy has made to a request, as what must be decided about it.
package struct AuthenticationQuestion: Sendable {
    package let space: ProtectionSpace
    /// The credential that is known for the space.
    package let proposedCredential: URLCredential?
    /// How often credentials for the space were refused, within one operation.
    package let previousFailureCount: Int
    /// Whether a known credential may not be sent, as one was refused there, by this method or another.
    package let isRefused: Bool
    let server: AuthenticatingServer
    let challenge: HTTPChallenge
}

/// What the head of a response with 401 or 407 means.
package enum AuthenticationVerdict: Sendable {
    /// Nothing that could be answered is asked for.
    case none
    /// The same credential is to be sent again, in another form: a nonce was too old.
    case sendAgain
    /// What may be answered, the strongest method first; not empty.
    case ask([AuthenticationQuestion])
}
