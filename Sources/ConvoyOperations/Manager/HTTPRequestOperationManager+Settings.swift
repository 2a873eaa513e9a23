import ConvoyReachability
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Serializers, decoders and encoders.
extension HTTPRequestOperationManager {
    /// Makes requests of parameters: a query or a form by `HTTPRequestSerializer`, unless set. A
    /// `JSONRequestSerializer` sends the parameters of POST, PUT and PATCH as JSON.
    ///
    /// With a `baseURL`, its `Authorization` and other secret fields go to that origin and to the
    /// ``authorizationOrigins`` only; without one they go wherever a call leads.
    ///
    /// It can be changed in place: `manager.requestSerializer.setAuthorizationHeader(bearerToken: token)`. Of two
    /// threads that do so at once the last one wins; ``updateRequestSerializer(_:)`` loses no change.
    public final var requestSerializer: any HTTPRequestSerialization {
        get { state.withLock { $0.requestSerializer } }
        set { setRequestSerializer(newValue, after: nil) }
    }

    /// Changes the request serializer, and loses no change that another thread makes at the same time.
    ///
    /// - Parameter update: changes a copy of the serializer. Called again if another thread made a change meanwhile.
    /// - Throws: what the block throws; then nothing has changed.
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

    /// Changes the response serializer, and loses no change that another thread makes at the same time.
    ///
    /// - Parameter update: changes a copy of the serializer. Called again if another thread made a change meanwhile.
    /// - Throws: what the block throws; then nothing has changed.
    public final func updateResponseSerializer(
        _ update: (inout any HTTPResponseSerialization) throws -> Void
    ) rethrows {
        try updateSettings { try update(&$0.values.responseSerializer) }
    }

    /// - Parameter changes: the number of changes when the serializer was read; nil to set it in any case.
    @discardableResult
    private func setRequestSerializer(_ serializer: any HTTPRequestSerialization, after changes: Int?) -> Bool {
        let template = RequestTemplate(serializer)
        var isSet = false
        change { state in
            guard changes == nil || changes == state.serializerChanges else { return }
            state.serializerChanges &+= 1
            (state.requestSerializer, state.template, isSet) = (serializer, template, true)
        }
        return isSet
    }

    /// Decodes JSON: awaited values, those of `TypedOperation` and `HTTPRequestOperation.value(as:)`, objects of a
    /// `DecodableResponseSerializer` without a decoder of its own, and the bodies of errors (`HTTPError.decoded(as:)`). It
    /// can be set up in place: `manager.decoder.keyDecodingStrategy = .convertFromSnakeCase`.
    ///
    /// A plain `JSONDecoder` only provides its strategies: a faster decoder, with the same values and errors, does the
    /// decoding. See `DecodableResponseSerializer`.
    public final var decoder: JSONDecoder {
        get { settings.values.decoder ?? JSONDecoder() }
        set { updateSettings { $0.values.decoder = newValue } }
    }

    /// Encodes the `body` of calls. It can be set up in place:
    /// `manager.encoder.keyEncodingStrategy = .convertToSnakeCase`.
    public final var encoder: JSONEncoder {
        get { state.withLock { $0.encoder } }
        set { change { $0.encoder = newValue } }
    }
}

/// Authentication.
extension HTTPRequestOperationManager {
    /// The origins (scheme, host and port) of these URLs receive credentials and secret fields, besides that of
    /// `baseURL`. None by default; a URL that is none of HTTP names no origin.
    ///
    /// With a `baseURL`, only its origin and these get the `credential`, the token of the `authenticator`, and
    /// `Authorization` and other header fields of the ``requestSerializer`` whose names say that they are secrets, or
    /// that are among the `sensitiveHeaders` of `connectionConfiguration`. A request to another origin
    /// (`get("//other.example/")`) is sent without them. A call's own `headers` are sent with it in any case.
    ///
    /// Without a base URL all of these go with each request, wherever it leads, and the list means nothing.
    public final var authorizationOrigins: Set<URL> {
        get { state.withLock { $0.authorizationOrigins } }
        set {
            let targets = Self.authorizedTargets(baseURL, newValue)
            change { state in
                state.authorizationOrigins = newValue
                state.settings.values.holder.authorizedTargets = targets
            }
        }
    }

    /// - Returns: nil for all, without a base URL.
    static func authorizedTargets(_ base: URL?, _ others: Set<URL>) -> Set<Target>? {
        base.map { base in Set((others + [base]).compactMap { Target($0) }) }
    }

    /// A request from the serializer, without secrets that were added to all requests and are not for its origin.
    ///
    /// - Parameter headers: the call's own fields.
    func withoutSecretsOfOthers(_ request: URLRequest, _ headers: [String: String?] = [:]) -> URLRequest {
        let values = settings.values
        let (targets, secrets) = (values.holder.authorizedTargets, values.connectionConfiguration.secrets)
        guard let targets, request.url.flatMap({ Target($0) }).map(targets.contains) != true else { return request }
        var cleared = request
        for name in (request.allHTTPHeaderFields ?? [:]).keys where secrets.contains(name) {
            if headers.keys.contains(where: { HTTPSyntax.isSameField($0, name) }) { continue }
            cleared.setValue(nil, forHTTPHeaderField: name)
        }
        return cleared
    }

    /// The fields of a session that a request may send: secrets are for the authorized origins.
    package final func fields(_ fields: [String: String], for request: URLRequest) -> [String: String] {
        let values = settings.values
        let (targets, secrets) = (values.holder.authorizedTargets, values.connectionConfiguration.secrets)
        guard let targets, request.url.flatMap({ Target($0) }).map(targets.contains) != true else { return fields }
        return fields.filter { !secrets.contains($0.key) }
    }

    /// Called when a server or a proxy requires authentication: the operations' handler, unless they have another. See
    /// `URLConnectionOperation.authenticationChallengeHandler`.
    public final var authenticationChallengeHandler: URLConnectionOperation.AuthenticationChallengeHandler? {
        get { state.withLock { $0.handlers }?.challenge }
        set {
            change { $0.handlers = InheritedHandlers(challenge: newValue, traceContext: $0.handlers?.traceContext) }
        }
    }

    /// Provides the context of a distributed trace for each attempt: the operations' provider, unless they have
    /// another. See `URLConnectionOperation.traceContextProvider`.
    public final var traceContextProvider: URLConnectionOperation.TraceContextProvider? {
        get { state.withLock { $0.handlers }?.traceContext }
        set { change { $0.handlers = InheritedHandlers(challenge: $0.handlers?.challenge, traceContext: newValue) } }
    }

    /// An operation with the manager's settings and handlers. Within a refresh it has no authenticator, as it would
    /// wait for itself.
    static func operation(
        _ request: TransferRequest, _ settings: RequestSettings, _ handlers: InheritedHandlers?, host: HostKey? = nil
    ) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request, settings: settings, host: host)
        handlers?.give(to: operation)
        if settings.prepared.hasAuthenticator, Authenticator.isRefreshing {
            operation.change { ($0.authenticator, $0.holder.isOfRefresh) = (nil, true) }
        }
        return operation
    }

    /// The queue for new operations: during a refresh, one without limits.
    var currentQueue: OperationQueue { Authenticator.isRefreshing ? RequestOperationQueue() : operationQueue }
}

extension HTTPRequestOperationManager {
    /// A manager with a queue of its own and a security policy, which is checked against the base URL.
    ///
    /// - Parameters:
    ///   - baseURL: the base of relative URLs; nil if all URLs are absolute.
    ///   - securityPolicy: which servers are trusted.
    ///   - completionQueue: the queue of the handlers; nil is the main queue.
    ///   - configuration: the other settings of connections; its own policy is replaced.
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` if the policy pins the host of a `baseURL`
    ///   that is not https.
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
            "A security policy that pins the server needs a base URL with https.")
    }
}

/// What the operations of a manager share.
extension HTTPRequestOperationManager {
    /// Limits how many bytes of responses all operations of the manager receive in a second, together; nil, the
    /// default, for none. The first of `connectionConfiguration.receiveRateLimits`.
    ///
    /// Setting it is for operations that are made later. The rate itself can be changed at any time, and counts at
    /// once. A copy of the manager has the same limit, and takes from it as well.
    public final var receiveRateLimit: RateLimit? {
        get { connectionConfiguration.receiveRateLimits.first }
        set { updateSettings { $0.values.connectionConfiguration.receiveRateLimits = newValue.map { [$0] } ?? [] } }
    }

    /// Limits how many bytes of bodies all operations of the manager send in a second, together; nil, the default, for
    /// none. The first of `connectionConfiguration.sendRateLimits`; otherwise as ``receiveRateLimit``.
    public final var sendRateLimit: RateLimit? {
        get { connectionConfiguration.sendRateLimits.first }
        set { updateSettings { $0.values.connectionConfiguration.sendRateLimits = newValue.map { [$0] } ?? [] } }
    }

    /// The reachability of the network; `.shared` by default. As in AFNetworking it is not asked by the operations, and
    /// monitors nothing until it is started; `waitsForConnectivity` lets operations wait for a network.
    public final var reachabilityManager: NetworkReachabilityManager {
        get { state.withLock { $0.reachabilityManager } }
        set { change { $0.reachabilityManager = newValue } }
    }
}

/// The manager's queue as a `RequestOperationQueue`.
extension HTTPRequestOperationManager {
    /// `operationQueue` if it is a `RequestOperationQueue`, like the manager's own; nil for another queue.
    public final var requestOperationQueue: RequestOperationQueue? { operationQueue as? RequestOperationQueue }

    /// The maximum number of running operations: 256 in the manager's own queue by default.
    public final var maxConcurrentOperationCount: Int {
        get { operationQueue.maxConcurrentOperationCount }
        set { operationQueue.maxConcurrentOperationCount = newValue }
    }

    /// How many operations run at a time for one host, by name and port, at most: 64 in the manager's own queue, unless
    /// set. A queue of Foundation's has no such limit; then it is `Int.max`, and setting it does nothing.
    public final var maxConcurrentOperationCountPerHost: Int {
        get { requestOperationQueue?.maxConcurrentOperationCountPerHost ?? .max }
        set { requestOperationQueue?.maxConcurrentOperationCountPerHost = newValue }
    }

    /// How many operations may start in a second, all hosts together; nil, the default, for any number. A queue of
    /// Foundation's has no such limit; then it is nil, and setting it does nothing. See
    /// `RequestOperationQueue.maximumStartRate`.
    public final var maximumStartRate: StartRate? {
        get { requestOperationQueue?.maximumStartRate }
        set { requestOperationQueue?.maximumStartRate = newValue }
    }

    /// The same for each host. See `RequestOperationQueue.maximumStartRatePerHost`.
    public final var maximumStartRatePerHost: StartRate? {
        get { requestOperationQueue?.maximumStartRatePerHost }
        set { requestOperationQueue?.maximumStartRatePerHost = newValue }
    }

    /// How many operations of the queue have not finished.
    public final var queuedOperationCount: Int {
        requestOperationQueue?.queuedOperationCount ?? operationQueue.operationCount
    }

    /// The operations of the queue that have not finished. Foundation's own list does not show those of a
    /// `RequestOperationQueue`.
    final var queuedOperations: [Operation] {
        let queue = operationQueue
        return (queue as? RequestOperationQueue)?.queuedOperations ?? queue.operations
    }

    /// Cancels all operations of the queue, including those that others have added.
    public final func cancelAllOperations() { operationQueue.cancelAllOperations() }
}

/// The progress of a manager's operations.
extension HTTPRequestOperationManager {
    /// The sum of the progress of the operations in the queue, without finished ones; a ``BatchOperation`` counts its
    /// members to the end.
    public final var transferProgress: TransferProgress {
        TransferProgress.sum(of: queuedOperations.lazy.compactMap { $0 as? URLConnectionOperation })
    }

    /// The same ten times a second, until the queue is empty. To be iterated over once.
    public final var transferProgressUpdates: AsyncStream<TransferProgress> {
        TransferProgress.updates(of: { self.transferProgress }, until: { self.queuedOperationCount == 0 })
    }
}
