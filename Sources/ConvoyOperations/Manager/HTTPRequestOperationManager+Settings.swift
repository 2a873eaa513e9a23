import ConvoyReachability
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// What makes requests of parameters and bodies, and values of responses.
extension HTTPRequestOperationManager {
    /// Makes requests of parameters: a query or a form by `HTTPRequestSerializer`, unless set. A
    /// `JSONRequestSerializer` sends the parameters of POST, PUT and PATCH as JSON.
    ///
    /// With a `baseURL`, its `Authorization` and other secret fields go to that origin and to the
    /// ``authorizationOrigins`` only; without one they go wherever a call leads.
    ///
    /// It can be changed in place: `manager.requestSerializer.setAuthorizationHeader(bearerToken: token)`. Of two
    /// threads that do so at once the last one wins; ``updateRequestSerializer(_:)`` loses nothing.
    public final var requestSerializer: any HTTPRequestSerialization {
        get { state.withLock { $0.requestSerializer } }
        set { setRequestSerializer(newValue, after: nil) }
    }

    /// Changes the request serializer, and loses no change that another thread makes at the same time.
    ///
    /// - Parameter update: changes a copy of the serializer. It is called again where another thread was quicker.
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
    /// - Parameter update: changes a copy of the serializer. It is called again where another thread was quicker.
    /// - Throws: what the block throws; then nothing has changed.
    public final func updateResponseSerializer(
        _ update: (inout any HTTPResponseSerialization) throws -> Void
    ) rethrows {
        try updateSettings { try update(&$0.values.responseSerializer) }
    }

    /// - Parameter changes: how often serializers have been set when this one was read; nil to set it all the same.
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

    /// Decodes the JSON of awaited values. It can be set up in place:
    /// `manager.decoder.keyDecodingStrategy = .convertFromSnakeCase`.
    ///
    /// A plain `JSONDecoder` is asked for its strategies only: a faster decoder, with the same values and errors, does the
    /// rest. See `DecodableResponseSerializer`.
    public final var decoder: JSONDecoder {
        get { state.withLock { $0.decoder } }
        set { change { $0.decoder = newValue } }
    }

    /// Encodes what the calls are given as `body`. It can be set up in place:
    /// `manager.encoder.keyEncodingStrategy = .convertToSnakeCase`.
    public final var encoder: JSONEncoder {
        get { state.withLock { $0.encoder } }
        set { change { $0.encoder = newValue } }
    }
}

/// Who the client is.
extension HTTPRequestOperationManager {
    /// The origins (scheme, host and port) of these URLs may see who the client is, besides that of `baseURL`. None by
    /// default; a URL that is none of HTTP names no origin.
    ///
    /// With a `baseURL`, only its origin and these get the `credential`, the token of the `authenticator`, and
    /// `Authorization` and other header fields of the ``requestSerializer`` whose names say that they are secrets, or that
    /// are among the `sensitiveHeaders` of `connectionConfiguration`. A request to another origin
    /// (`get("//other.example/")`) is sent without them. What a call is given in its own `headers` goes where the call goes.
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

    /// A request that the serializer has made, without what it has added to all requests and is for other origins.
    ///
    /// - Parameter headers: what the call was given for itself.
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

    /// Those of a session's fields that a request may carry to where it goes: secrets are for the authorized origins.
    package final func fields(_ fields: [String: String], for request: URLRequest) -> [String: String] {
        let values = settings.values
        let (targets, secrets) = (values.holder.authorizedTargets, values.connectionConfiguration.secrets)
        guard let targets, request.url.flatMap({ Target($0) }).map(targets.contains) != true else { return fields }
        return fields.filter { !secrets.contains($0.key) }
    }

    /// Asked when a server or a proxy wants to know who the client is: the operations' handler, unless they are given
    /// another. See `URLConnectionOperation.authenticationChallengeHandler`.
    public final var authenticationChallengeHandler: URLConnectionOperation.AuthenticationChallengeHandler? {
        get { state.withLock { $0.handlers }?.challenge }
        set {
            change { $0.handlers = InheritedHandlers(challenge: newValue, traceContext: $0.handlers?.traceContext) }
        }
    }

    /// Says under which context of a distributed trace each attempt of an operation goes out: the operations' provider,
    /// unless they are given another. See `URLConnectionOperation.traceContextProvider`.
    public final var traceContextProvider: URLConnectionOperation.TraceContextProvider? {
        get { state.withLock { $0.handlers }?.traceContext }
        set { change { $0.handlers = InheritedHandlers(challenge: $0.handlers?.challenge, traceContext: newValue) } }
    }

    /// An operation with the manager's settings and its handlers. Within a refresh it has no token: it would wait for
    /// itself.
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

    /// Where operations are enqueued now: in a refresh, outside all limits.
    var currentQueue: OperationQueue { Authenticator.isRefreshing ? RequestOperationQueue() : operationQueue }
}

/// Which servers are trusted.
extension HTTPRequestOperationManager {
    /// A manager with a queue of its own, and a policy for the servers that it talks to.
    ///
    /// - Parameters:
    ///   - baseURL: what relative URLs are relative to; nil where every URL is given whole.
    ///   - securityPolicy: which servers are trusted.
    ///   - completionQueue: where handlers run; nil is the main queue.
    ///   - configuration: what else the operations' connections do; its own policy is replaced.
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` if the policy pins the host of a `baseURL` that
    ///   is not https.
    public convenience init(
        baseURL: URL?, securityPolicy: SecurityPolicy, completionQueue: DispatchQueue? = nil,
        configuration: ConnectionConfiguration = .init()
    ) throws(URLError) {
        try Self.check(securityPolicy, for: baseURL)
        var configuration = configuration
        configuration.securityPolicy = securityPolicy
        self.init(baseURL: baseURL, completionQueue: completionQueue, configuration: configuration)
    }

    /// Which servers are trusted; ``setSecurityPolicy(_:)`` changes it.
    public final var securityPolicy: SecurityPolicy { connectionConfiguration.securityPolicy }

    /// Sets which servers are trusted, for operations that are made from now on. They use no connection that was made
    /// under another policy.
    ///
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` if the policy pins the host of a `baseURL` that
    ///   is not https. Nothing is changed then.
    public final func setSecurityPolicy(_ policy: SecurityPolicy) throws(URLError) {
        try Self.check(policy, for: baseURL)
        updateSettings { $0.values.securityPolicy = policy }
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

/// What is for all operations of a manager together, or for none of them.
extension HTTPRequestOperationManager {
    /// A limit of how many bytes of responses come in a second, for all operations of the manager together; nil, the
    /// default, for none. The first of `connectionConfiguration.receiveRateLimits`.
    ///
    /// Setting it is for operations that are made later. The rate itself can be changed at any time, and counts at once.
    /// A copy of the manager has the same limit, and takes from it as well.
    public final var receiveRateLimit: RateLimit? {
        get { connectionConfiguration.receiveRateLimits.first }
        set { updateSettings { $0.values.connectionConfiguration.receiveRateLimits = newValue.map { [$0] } ?? [] } }
    }

    /// A limit of how many bytes of requests' bodies are sent in a second, for all operations of the manager together;
    /// nil, the default, for none. The first of `connectionConfiguration.sendRateLimits`; otherwise as
    /// ``receiveRateLimit``.
    public final var sendRateLimit: RateLimit? {
        get { connectionConfiguration.sendRateLimits.first }
        set { updateSettings { $0.values.connectionConfiguration.sendRateLimits = newValue.map { [$0] } ?? [] } }
    }

    /// Tells whether there is a network; `.shared`, unless set. As in AFNetworking it is not asked by the operations, and
    /// monitors nothing until it is started; `waitsForConnectivity` lets operations wait for a network.
    public final var reachabilityManager: NetworkReachabilityManager {
        get { state.withLock { $0.reachabilityManager } }
        set { change { $0.reachabilityManager = newValue } }
    }
}

/// The manager's queue, without a cast to its class.
extension HTTPRequestOperationManager {
    /// `operationQueue`, as long as it is a `RequestOperationQueue`, as the manager's own is; nil for another of
    /// Foundation's.
    public final var requestOperationQueue: RequestOperationQueue? { operationQueue as? RequestOperationQueue }

    /// How many operations run at a time, at most: 256 in the manager's own queue, unless set.
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

    /// Cancels all operations of the queue: also those that something else than this manager has put there.
    public final func cancelAllOperations() { operationQueue.cancelAllOperations() }
}

/// The bytes of a manager's operations.
extension HTTPRequestOperationManager {
    /// How many bytes of the operations in the queue have come and gone, taken together. Those that have finished have left
    /// it; a ``BatchOperation`` counts its own to the end.
    public final var transferProgress: TransferProgress {
        TransferProgress.sum(of: queuedOperations.lazy.compactMap { $0 as? URLConnectionOperation })
    }

    /// The same ten times a second, until the queue is empty. To be iterated over once.
    public final var transferProgressUpdates: AsyncStream<TransferProgress> {
        TransferProgress.updates(of: { self.transferProgress }, until: { self.queuedOperationCount == 0 })
    }
}
