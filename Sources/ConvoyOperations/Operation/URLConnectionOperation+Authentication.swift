import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Who the client is.
extension URLConnectionOperation {
    /// Answers a server or a proxy that asks who the client is: calls `answer` once, now or later, on any thread. Until
    /// then the operation has no slot in its queue. If `answer` is released without a call, the default applies.
    public typealias AuthenticationChallengeHandler =
        @Sendable (
            _ operation: URLConnectionOperation, _ challenge: AuthenticationChallenge,
            _ answer: @escaping @Sendable (AuthenticationDisposition) -> Void
        ) -> Void

    /// Asked about each 401 and 407 with a method that is supported: Basic (RFC 7617), Digest (RFC 7616), Bearer
    /// (RFC 6750), NTLM and Negotiate (RFC 4559), those two where libcurl has them. The strongest comes first. The
    /// exchange has ended then, and the answer begins another, in which a body is sent again: a stream must be a
    /// `ReplayableBodyStream`, or the operation fails with `URLError.requestBodyStreamExhausted`.
    ///
    /// Called on `completionQueue`, or on one of the library's queues if that is nil. Without a handler, `credential`
    /// and the credential store answer, and nothing is sent a second time that was refused. A 401 to a token of
    /// `authenticator` is that one's.
    public final var authenticationChallengeHandler: AuthenticationChallengeHandler? {
        get { core.withLock { $0.rareHandlers?.challenge } }
        set { setHandler(\.challenge, newValue) }
    }

    /// The user name and password for the server of the request, sent only if it asks for them, or has asked an earlier
    /// request for them. nil by default. A request with an `Authorization` of its own is sent with that until the server
    /// asks.
    ///
    /// They go to no other server (scheme, host and port), also not after a redirect; but to the same host where the
    /// request is redirected from http to https, at the standard ports. A proxy's are in its configuration.
    public final var credential: URLCredential? {
        get { core.withLock { $0.common.values.credential } }
        set { set(\.credential, to: newValue) }
    }

    /// Whether `credentialStore` is asked where `credential` is nil or is for another server. True by default.
    public final var shouldUseCredentialStorage: Bool {
        get { core.withLock { $0.common.values.usesCredentialStore } }
        set { change { $0.usesCredentialStore = newValue } }
    }

    /// Credentials by who asks for them: those of the manager, and without one a store of the operation's own. Give several
    /// the same one, such as `.shared`, so that one sends what another was told.
    public final var credentialStore: CredentialStore {
        get {
            if let store = core.withLock({ $0.common.values.credentialStore }) { return store }
            return change { $0.credentialStore.made(by: CredentialStore()) }
        }
        set { set(\.credentialStore, to: newValue) }
    }

    /// A name for the one on whose behalf the request is sent: that of `connectionConfiguration`. nil by default. See
    /// `ConnectionConfiguration.identity`.
    public final var identity: String? {
        get { core.withLock { $0.common.values.configuration.identity } }
        set { set(\.configuration.identity, to: newValue) }
    }

    /// Sends a token with the request. nil by default.
    public final var authenticator: Authenticator? {
        get { core.withLock { $0.common.values.authenticator } }
        set { set(\.authenticator, to: newValue) }
    }
}
