import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Who the client is.
extension HTTPRequestOperationManager {
    /// The user name and password for servers that ask for them. With a `baseURL` they go only to its origin (scheme,
    /// host and port); without one each operation sends them to the origin of its own request. See
    /// `URLConnectionOperation.credential`.
    public final var credential: URLCredential? {
        get { settings.withLock { $0.common.credential } }
        set { change { $0.credential = newValue } }
    }

    /// Whether `credentialStore` is asked for credentials. True by default.
    public final var shouldUseCredentialStorage: Bool {
        get { settings.withLock { $0.common.usesCredentialStore } }
        set { change { $0.usesCredentialStore = newValue } }
    }

    /// Credentials by who asks for them. `.shared` by default.
    public final var credentialStore: CredentialStore {
        get { settings.withLock { $0.common.credentialStore } }
        set { change { $0.credentialStore = newValue } }
    }

    /// Sends a token with each request to the origin of `baseURL`; without a base URL, with each request. nil by default.
    public final var authenticator: Authenticator? {
        get { settings.withLock { $0.common.authenticator } }
        set { change { $0.authenticator = newValue } }
    }

    /// Asked when a server or a proxy wants to know who the client is: the operations' handler, unless they are given
    /// another. See `URLConnectionOperation.authenticationChallengeHandler`.
    public final var authenticationChallengeHandler: URLConnectionOperation.AuthenticationChallengeHandler? {
        get { settings.withLock { $0.handlers.challenge } }
        set {
            let old = settings.withLock { settings in
                defer { settings.handlers.challenge = newValue }
                return settings.handlers.challenge
            }
            withExtendedLifetime(old) {}
        }
    }

    /// An operation with the manager's settings and its handlers. Within a refresh it has no token: it would wait for
    /// itself.
    static func operation(
        _ request: TransferRequest, _ common: CommonSettings, _ handlers: InheritedHandlers
    ) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request, settings: common)
        handlers.give(to: operation)
        if common.values.authenticator != nil, Authenticator.isRefreshing { operation.authenticator = nil }
        return operation
    }

    /// Where operations are enqueued now: in a refresh, outside all limits.
    var currentQueue: OperationQueue { Authenticator.isRefreshing ? RequestOperationQueue() : operationQueue }
}
