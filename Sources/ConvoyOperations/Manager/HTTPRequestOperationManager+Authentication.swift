import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Who the client is.
extension HTTPRequestOperationManager {
    /// The origins (scheme, host and port) of these URLs may see who the client is, besides that of `baseURL`. None by
    /// default; a URL that is none of HTTP names no origin.
    ///
    /// With a `baseURL`, only its origin and these get the ``credential``, the token of the ``authenticator``, and
    /// `Authorization` and other header fields of the ``requestSerializer`` whose names say that they are secrets, or that
    /// are among the `sensitiveHeaders` of ``connectionConfiguration``. A request to another origin
    /// (`get("//other.example/")`) is sent without them. What a call is given in its own `headers` goes where the call goes.
    ///
    /// Without a base URL all of these go with each request, wherever it leads, and the list means nothing.
    public final var authorizationOrigins: Set<URL> {
        get { settings.withLock { $0.authorizationOrigins } }
        set {
            let targets = Self.authorizedTargets(baseURL, newValue)
            let old = settings.withLock { settings in
                let old = (settings.authorizationOrigins, settings.common, settings.forgetShared())
                settings.authorizationOrigins = newValue
                settings.common.authorizedTargets = targets
                return old
            }
            withExtendedLifetime(old) {}
        }
    }

    /// - Returns: nil for all, without a base URL.
    static func authorizedTargets(_ base: URL?, _ others: Set<URL>) -> Set<Target>? {
        base.map { base in Set((others + [base]).compactMap { Target($0) }) }
    }

    /// A request that the serializer has made, without what it has added to all requests and is for other origins.
    ///
    /// - Parameter headers: what the call was given for itself.
    func withoutSecretsOfOthers(_ request: URLRequest, _ headers: [String: String?] = [:]) -> URLRequest {
        let (targets, secrets) = settings.withLock { ($0.common.authorizedTargets, $0.common.configuration.secrets) }
        guard let targets, request.url.flatMap({ Target($0) }).map(targets.contains) != true else { return request }
        var cleared = request
        for name in (request.allHTTPHeaderFields ?? [:]).keys where secrets.contains(name) {
            if headers.keys.contains(where: { HTTPSyntax.isSameField($0, name) }) { continue }
            cleared.setValue(nil, forHTTPHeaderField: name)
        }
        return cleared
    }

    /// The user name and password for servers that ask for them. With a `baseURL` they go only to its origin (scheme,
    /// host and port) and to the ``authorizationOrigins``; without one each operation sends them to the origin of its own
    /// request. See `URLConnectionOperation.credential`.
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

    /// Sends a token with each request to the origin of `baseURL` and to the ``authorizationOrigins``; without a base URL,
    /// with each request. nil by default.
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
        _ request: TransferRequest, _ common: CommonSettings, _ handlers: InheritedHandlers, host: HostKey? = nil
    ) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request, settings: common, host: host)
        handlers.give(to: operation)
        if common.values.authenticator != nil, Authenticator.isRefreshing { operation.authenticator = nil }
        return operation
    }

    /// Where operations are enqueued now: in a refresh, outside all limits.
    var currentQueue: OperationQueue { Authenticator.isRefreshing ? RequestOperationQueue() : operationQueue }
}
