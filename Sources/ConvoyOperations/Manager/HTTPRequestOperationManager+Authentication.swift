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

    /// Credentials by who asks for them, and what the handler has answered: a store of the manager's own by default. Give
    /// several managers the same one, such as `.shared`, so that one sends what another was told. A copy of a manager shares
    /// its store.
    public final var credentialStore: CredentialStore {
        get { settings.withLock { $0.common.credentialStore.made(by: CredentialStore()) } }
        set { change { $0.credentialStore = newValue } }
    }

    /// A name for the one on whose behalf the operations' requests are sent, such as that of a user: that of
    /// `connectionConfiguration`. nil by default. With a name, a refreshed token keeps its cache, and connections are of
    /// that name alone; see `ConnectionConfiguration.identity`.
    ///
    /// ```swift
    /// api.cache = cache
    /// api.identity = "ada"
    /// ```
    public final var identity: String? {
        get { settings.withLock { $0.common.configuration.identity } }
        set { change { $0.configuration.identity = newValue } }
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
