import ConvoyCache
import ConvoyCookies
import ConvoyOperations
import ConvoyReachability
import ConvoySecurity
import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The settings of the tasks that are made from now on: those of ``operationManager``, under the same names.
extension URLSessionManager {
    /// Validates and parses responses. `JSONResponseSerializer`, unless set.
    public final var responseSerializer: any HTTPResponseSerialization {
        get { operationManager.responseSerializer }
        set { operationManager.responseSerializer = newValue }
    }

    /// The queue on which the handlers of tasks run; nil is the main queue.
    public final var completionQueue: DispatchQueue? {
        get { operationManager.completionQueue }
        set { operationManager.completionQueue = newValue }
    }

    /// A group that each task is in from when it is resumed until its handlers have run.
    public final var completionGroup: DispatchGroup? {
        get { operationManager.completionGroup }
        set { operationManager.completionGroup = newValue }
    }

    /// Which servers are trusted; ``setSecurityPolicy(_:)`` changes it.
    public final var securityPolicy: SecurityPolicy { operationManager.securityPolicy }

    /// Sets which servers are trusted, for tasks that are made from now on. They use no connection that was made under
    /// another policy.
    ///
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` if the policy pins the host of a base URL that is not
    ///   https. Nothing is changed then.
    public final func setSecurityPolicy(_ policy: SecurityPolicy) throws(URLError) {
        try operationManager.setSecurityPolicy(policy)
    }

    /// The user name and password for servers that ask for them.
    public final var credential: URLCredential? {
        get { operationManager.credential }
        set { operationManager.credential = newValue }
    }

    /// Sends a token with each request. nil by default.
    public final var authenticator: Authenticator? {
        get { operationManager.authenticator }
        set { operationManager.authenticator = newValue }
    }

    /// Whether and when failed requests are retried.
    public final var retryPolicy: RetryPolicy? {
        get { operationManager.retryPolicy }
        set { operationManager.retryPolicy = newValue }
    }

    /// The queue in which the tasks' operations run: a `RequestOperationQueue` with the limits of the configuration, unless
    /// set. (AFNetworking's property of this name is ``handlerQueue``.)
    public final var operationQueue: OperationQueue {
        get { operationManager.operationQueue }
        set { operationManager.operationQueue = newValue }
    }

    /// How many tasks' operations the queue has.
    public final var queuedOperationCount: Int { operationManager.queuedOperationCount }

    /// Whether ``credentialStore`` is asked for credentials.
    public final var shouldUseCredentialStorage: Bool {
        get { operationManager.shouldUseCredentialStorage }
        set { operationManager.shouldUseCredentialStorage = newValue }
    }

    /// Credentials by who asks for them: a store of the manager's own, unless its configuration named one.
    public final var credentialStore: CredentialStore {
        get { operationManager.credentialStore }
        set { operationManager.credentialStore = newValue }
    }

    /// A name for the one on whose behalf requests of tasks are sent that are made from now on: that of
    /// ``connectionConfiguration``. nil for none. See `ConnectionConfiguration.identity`.
    public final var identity: String? {
        get { operationManager.identity }
        set { operationManager.identity = newValue }
    }

    /// Settings for the connections of tasks that are made from now on.
    public final var connectionConfiguration: ConnectionConfiguration {
        get { operationManager.connectionConfiguration }
        set { operationManager.connectionConfiguration = newValue }
    }

    /// How many seconds transfers may be without a byte; nil leaves it to the request.
    public final var idleTimeout: TimeInterval? {
        get { operationManager.idleTimeout }
        set { operationManager.idleTimeout = newValue }
    }

    /// How many seconds each task may take in all, retries and suspensions included; nil for any number.
    public final var totalTimeout: TimeInterval? {
        get { operationManager.totalTimeout }
        set { operationManager.totalTimeout = newValue }
    }

    /// Whether a task that cannot connect because there is no network waits for one, in place of failing.
    public final var waitsForConnectivity: Bool {
        get { operationManager.waitsForConnectivity }
        set { operationManager.waitsForConnectivity = newValue }
    }

    /// Who hears what happens to the tasks that are made from now on, by the operations that do their work.
    public final var eventMonitors: [EventMonitor] {
        get { operationManager.eventMonitors }
        set { operationManager.eventMonitors = newValue }
    }

    /// Says under which context of a distributed trace each attempt of a task goes out that is made from now on.
    public final var traceContextProvider: URLConnectionOperation.TraceContextProvider? {
        get { operationManager.traceContextProvider }
        set { operationManager.traceContextProvider = newValue }
    }

    /// Whether tasks collect ``SessionTask/metrics``. False by default: then it costs nothing.
    public final var collectsMetrics: Bool {
        get { operationManager.collectsMetrics }
        set { operationManager.collectsMetrics = newValue }
    }

    /// Tells whether there is a network; `.shared`, unless set. It is not asked by the tasks, and monitors nothing until it is
    /// started.
    public final var reachabilityManager: NetworkReachabilityManager {
        get { operationManager.reachabilityManager }
        set { operationManager.reachabilityManager = newValue }
    }

    /// Whether tasks may share one transfer with identical GETs that are in flight. False by default.
    public final var coalescesIdenticalRequests: Bool {
        get { operationManager.coalescesIdenticalRequests }
        set { operationManager.coalescesIdenticalRequests = newValue }
    }

    /// What keeps the cookies of the tasks; nil for none.
    public final var cookieStore: CookieStore? {
        get { operationManager.cookieStore }
        set { operationManager.cookieStore = newValue }
    }

    /// The cache of responses; nil for none.
    public final var cache: HTTPCache? {
        get { operationManager.cache }
        set { operationManager.cache = newValue }
    }

    /// A limit of how many bytes of responses come in a second, for all tasks together; nil for none.
    public final var receiveRateLimit: RateLimit? {
        get { operationManager.receiveRateLimit }
        set { operationManager.receiveRateLimit = newValue }
    }

    /// A limit of how many bytes of bodies are sent in a second, for all tasks together; nil for none.
    public final var sendRateLimit: RateLimit? {
        get { operationManager.sendRateLimit }
        set { operationManager.sendRateLimit = newValue }
    }

    /// How slow transfers may be, before they fail with `URLError.timedOut`; nil for no such limit.
    public final var stallLimit: StallLimit? {
        get { operationManager.stallLimit }
        set { operationManager.stallLimit = newValue }
    }

    /// How many tasks run at a time, at most.
    public final var maxConcurrentOperationCount: Int {
        get { operationManager.maxConcurrentOperationCount }
        set { operationManager.maxConcurrentOperationCount = newValue }
    }

    /// How many tasks run at a time for one host, by name and port, at most.
    public final var maxConcurrentOperationCountPerHost: Int {
        get { operationManager.maxConcurrentOperationCountPerHost }
        set { operationManager.maxConcurrentOperationCountPerHost = newValue }
    }

    /// `operationQueue`, as long as it is a `RequestOperationQueue`; nil for another of Foundation's.
    public final var requestOperationQueue: RequestOperationQueue? { operationManager.requestOperationQueue }

    /// Cancels all operations of the queue: also those that something else than this manager has put there.
    public final func cancelAllOperations() { operationManager.cancelAllOperations() }

    /// Changes the response serializer, and loses no change that another thread makes at the same time. See
    /// `HTTPRequestOperationManager.updateResponseSerializer(_:)`.
    public final func updateResponseSerializer(
        _ update: (inout any HTTPResponseSerialization) throws -> Void
    ) rethrows {
        try operationManager.updateResponseSerializer(update)
    }
}
