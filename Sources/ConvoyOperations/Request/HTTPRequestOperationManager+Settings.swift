import ConvoyReachability
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The serializers, the decoder and the encoder.
extension HTTPRequestOperationManager {
    /// The serializer that creates requests from parameters. The default is an `HTTPRequestSerializer`, which encodes
    /// the parameters as a query or a form. A `JSONRequestSerializer` sends the parameters of POST, PUT and PATCH as
    /// JSON.
    ///
    /// With a `baseURL`, the serializer's `Authorization` and other secret fields are sent only to that origin and to
    /// the ``authorizationOrigins``; without a base URL, they are sent with every request.
    ///
    /// The serializer can be changed in place: `manager.requestSerializer.setAuthorizationHeader(bearerToken: token)`.
    /// If two threads do so concurrently, the last change wins; ``updateRequestSerializer(_:)`` loses no change.
    public final var requestSerializer: any HTTPRequestSerialization {
        get { state.withLock { $0.requestSerializer } }
        set { setRequestSerializer(newValue, after: nil) }
    }

    /// Updates the request serializer without losing concurrent changes made by other threads.
    ///
    /// - Parameter update: A closure that changes a copy of the serializer. It is called again if another thread has
    ///   changed the serializer in the meantime.
    /// - Throws: The error thrown by `update`, in which case the serializer is unchanged.
    public final func updateRequestSerializer(
        _ update: (inout any HTTPRequestSerialization) throws -> Void
    ) rethrows {
        var isDone = false
        while !isDone {
            var (serializer, changes) = state.withLock { ($0.requestSerializer, $0.serializerChanges) }
            try update(&serializer)
            isDone = setRequestSerializer(serializer, after: changes)
        }
    }

    /// Updates the response serializer without losing concurrent changes made by other threads.
    ///
    /// - Parameter update: A closure that changes a copy of the serializer. It is called again if another thread has
    ///   changed the serializer in the meantime.
    /// - Throws: The error thrown by `update`, in which case the serializer is unchanged.
    public final func updateResponseSerializer(
        _ update: (inout any HTTPResponseSerialization) throws -> Void
    ) rethrows {
        try updateSettings { try update(&$0.values.responseSerializer) }
    }

    /// - Parameter changes: The value of `serializerChanges` when the serializer was read; nil to set the serializer
    ///   unconditionally.
    @discardableResult
    private func setRequestSerializer(_ serializer: any HTTPRequestSerialization, after changes: Int?) -> Bool {
        let template = RequestTemplate(serializer)
        var isSet = false
        change { state in
            guard changes == nil || changes == state.serializerChanges else { return }
            state.serializerChanges &+= 1
            state.requestSerializer = serializer
            state.template = template
            isSet = true
        }
        return isSet
    }

    /// The JSON decoder for the values of async calls, `TypedOperation` and `HTTPRequestOperation.value(as:)`, for the
    /// objects of a `DecodableResponseSerializer` without its own decoder, and for error bodies
    /// (`HTTPError.decoded(as:)`). It can be configured in place: `manager.decoder.keyDecodingStrategy =
    /// .convertFromSnakeCase`.
    ///
    /// The initial decoder accepts dates in the format of RFC 3339 and, like a plain `JSONDecoder`, numbers of seconds
    /// since 2001.
    ///
    /// If this is a plain `JSONDecoder`, only its strategies are used: a faster decoder, with the same values and
    /// errors, decodes the responses. See `DecodableResponseSerializer`.
    public final var decoder: JSONDecoder {
        get { settings.values.decoder ?? JSONDecoder() }
        set { updateSettings { $0.values.decoder = newValue } }
    }

    /// The JSON encoder for the `body` of calls, and for `Encodable` values among their parameters. It can be
    /// configured in place: `manager.encoder.keyEncodingStrategy = .convertToSnakeCase`.
    ///
    /// The initial encoder writes dates in the format of RFC 3339, as in `2013-01-01T00:00:00Z`.
    public final var encoder: JSONEncoder {
        get { state.withLock { $0.encoder } }
        set { change { $0.encoder = newValue } }
    }
}

/// Settings for authentication and tracing.
extension HTTPRequestOperationManager {
    /// URLs whose origins (scheme, host and port) receive credentials and secret fields in addition to the origin of
    /// `baseURL`. Empty by default. A URL whose scheme is neither HTTP nor HTTPS is ignored.
    ///
    /// With a `baseURL`, only its origin and the origins of this set receive the `credential`, the token of the
    /// `authenticator`, and `Authorization` and other header fields of the ``requestSerializer`` whose names mark them
    /// as secrets, or that are among the `sensitiveHeaders` of `connectionConfiguration`. A request to another origin
    /// (`get("//other.example/")`) is sent without them. A call's own `headers` are always sent to the URL of the call.
    ///
    /// Without a base URL, credentials and secret fields are sent with every request to any host, and this list has no
    /// effect.
    public final var authorizationOrigins: Set<URL> {
        get { state.withLock { $0.authorizationOrigins } }
        set {
            let scope = SecretScope(base: baseURL, origins: newValue)
            change { state in
                state.authorizationOrigins = newValue
                state.settings.values.holder.secretScope = scope
            }
        }
    }

    /// Returns the fields of a serializer or session that a request must not send.
    package final func withheldFields(_ names: some Sequence<String>, of request: URLRequest) -> [String] {
        let values = settings.values
        return values.holder.secretScope.withheld(names, from: request.url, values.connectionConfiguration.secrets)
    }

    /// Removes the fields that a request from the serializer must not send.
    ///
    /// - Parameter headers: The call's own fields, which are kept.
    func withoutWithheldFields(_ request: URLRequest, _ headers: [String: String?] = [:]) -> URLRequest {
        var cleared = request
        for name in withheldFields((request.allHTTPHeaderFields ?? [:]).keys, of: request)
        where !headers.keys.contains(where: { HTTPSyntax.isSameField($0, name) }) {
            cleared.setValue(nil, forHTTPHeaderField: name)
        }
        return cleared
    }

    /// The handler called when a server or a proxy requires authentication, used by operations without their own
    /// handler. See `URLConnectionOperation.authenticationChallengeHandler`.
    public final var authenticationChallengeHandler: URLConnectionOperation.AuthenticationChallengeHandler? {
        get { state.withLock { $0.handlers }?.challenge }
        set {
            change { $0.handlers = InheritedHandlers(challenge: newValue, traceContext: $0.handlers?.traceContext) }
        }
    }

    /// The closure that provides the context of a distributed trace for each attempt, used by operations without their
    /// own provider. See `URLConnectionOperation.traceContextProvider`.
    public final var traceContextProvider: URLConnectionOperation.TraceContextProvider? {
        get { state.withLock { $0.handlers }?.traceContext }
        set { change { $0.handlers = InheritedHandlers(challenge: $0.handlers?.challenge, traceContext: newValue) } }
    }

    /// Creates an operation with the manager's settings and handlers. An operation created by a token refresh has no
    /// authenticator, because the refresh would wait for itself.
    static func operation(
        _ request: TransferRequest, _ settings: RequestSettings, _ handlers: InheritedHandlers?, host: String? = nil
    ) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request, settings: settings, host: host)
        handlers?.give(to: operation)
        if settings.prepared.hasAuthenticator, Authenticator.isRefreshing {
            operation.change { ($0.authenticator, $0.holder.isOfRefresh) = (nil, true) }
        }
        return operation
    }

    /// The queue for new operations. Within a token refresh, this is a new queue without limits.
    var currentQueue: OperationQueue { Authenticator.isRefreshing ? RequestOperationQueue() : operationQueue }
}

extension HTTPRequestOperationManager {
    /// Creates a manager with its own queue and a security policy, which is checked against the base URL.
    ///
    /// - Parameters:
    ///   - baseURL: The base of relative URLs; nil if all URLs are absolute.
    ///   - securityPolicy: The policy that decides which servers are trusted.
    ///   - completionQueue: The queue on which handlers run; nil for the main queue.
    ///   - configuration: The other connection settings; its security policy is replaced.
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` if the policy pins the host of a `baseURL`
    ///   whose scheme is not https.
    public convenience init(
        baseURL: URL?, securityPolicy: SecurityPolicy, completionQueue: DispatchQueue? = nil,
        configuration: ConnectionConfiguration = .init()
    ) throws(URLError) {
        try Self.check(securityPolicy, for: baseURL)
        var configuration = configuration
        configuration.securityPolicy = securityPolicy
        self.init(baseURL: baseURL, completionQueue: completionQueue, configuration: configuration)
    }

    private static func check(_ policy: SecurityPolicy, for url: URL?) throws(URLError) {
        guard let url else { return }
        let target = Target(url)
        guard target?.isSecure != true, policy.isPinning(host: target?.host) else { return }
        throw URLError(
            .appTransportSecurityRequiresSecureConnection, url: url,
            "Server pinning requires an https base URL.")
    }
}

/// The objects shared by the operations of a manager.
extension HTTPRequestOperationManager {
    /// The rate limit for received bytes of all operations of the manager together, or nil, the default, for none. This
    /// is the first element of `connectionConfiguration.receiveRateLimits`.
    ///
    /// Setting this property affects operations created later. The rate of the `RateLimit` can be changed at any time,
    /// with immediate effect. A copy of the manager shares the same limit.
    public final var receiveRateLimit: RateLimit? {
        get { connectionConfiguration.receiveRateLimits.first }
        set { updateSettings { $0.values.connectionConfiguration.receiveRateLimits = newValue.map { [$0] } ?? [] } }
    }

    /// The rate limit for sent body bytes of all operations of the manager together, or nil, the default, for none.
    /// This is the first element of `connectionConfiguration.sendRateLimits`. The rules of ``receiveRateLimit`` apply.
    public final var sendRateLimit: RateLimit? {
        get { connectionConfiguration.sendRateLimits.first }
        set { updateSettings { $0.values.connectionConfiguration.sendRateLimits = newValue.map { [$0] } ?? [] } }
    }

    /// The manager's network reachability monitor; `.shared` by default. As in AFNetworking, operations do not use it,
    /// and it must be started before it monitors the network. To let operations wait for a network, set
    /// `waitsForConnectivity`.
    public final var reachabilityManager: NetworkReachabilityManager {
        get { state.withLock { $0.reachabilityManager } }
        set { change { $0.reachabilityManager = newValue } }
    }
}

/// The manager's queue as a `RequestOperationQueue`.
extension HTTPRequestOperationManager {
    /// `operationQueue` if it is a `RequestOperationQueue`, like the manager's own; otherwise nil.
    public final var requestOperationQueue: RequestOperationQueue? { operationQueue as? RequestOperationQueue }

    /// The maximum number of running operations: 256 in the manager's own queue by default.
    public final var maxConcurrentOperationCount: Int {
        get { operationQueue.maxConcurrentOperationCount }
        set { operationQueue.maxConcurrentOperationCount = newValue }
    }

    /// The maximum number of running operations per host, identified by name and port: 64 in the manager's own queue by
    /// default. A Foundation queue has no such limit; in that case the value is `Int.max`, and setting it has no
    /// effect.
    public final var maxConcurrentOperationCountPerHost: Int {
        get { requestOperationQueue?.maxConcurrentOperationCountPerHost ?? .max }
        set { requestOperationQueue?.maxConcurrentOperationCountPerHost = newValue }
    }

    /// The rate at which operations may start, across all hosts; nil, the default, for no limit. A Foundation queue has
    /// no such limit; in that case the value is nil, and setting it has no effect. See
    /// `RequestOperationQueue.maximumStartRate`.
    public final var maximumStartRate: StartRate? {
        get { requestOperationQueue?.maximumStartRate }
        set { requestOperationQueue?.maximumStartRate = newValue }
    }

    /// The rate at which operations may start per host. See `RequestOperationQueue.maximumStartRatePerHost`.
    public final var maximumStartRatePerHost: StartRate? {
        get { requestOperationQueue?.maximumStartRatePerHost }
        set { requestOperationQueue?.maximumStartRatePerHost = newValue }
    }

    /// The number of operations in the queue that have not finished.
    public final var queuedOperationCount: Int {
        requestOperationQueue?.queuedOperationCount ?? operationQueue.operationCount
    }

    /// The operations in the queue that have not finished. `OperationQueue.operations` does not include those of a
    /// `RequestOperationQueue`.
    final var queuedOperations: [Operation] {
        let queue = operationQueue
        return (queue as? RequestOperationQueue)?.queuedOperations ?? queue.operations
    }

    /// Cancels all operations in the queue, including those that the manager has not added.
    public final func cancelAllOperations() { operationQueue.cancelAllOperations() }
}

/// The progress of a manager's operations.
extension HTTPRequestOperationManager {
    /// The total progress of the unfinished operations in the queue. A ``BatchOperation`` in the queue includes the
    /// progress of its members until it finishes.
    public final var transferProgress: TransferProgress {
        TransferProgress.sum(of: queuedOperations.lazy.compactMap { $0 as? URLConnectionOperation })
    }

    /// A sequence of `transferProgress` values, ten per second until the queue is empty. Iterate over it once.
    public final var transferProgressUpdates: AsyncStream<TransferProgress> {
        TransferProgress.updates(of: { self.transferProgress }, until: { self.queuedOperationCount == 0 })
    }
}
