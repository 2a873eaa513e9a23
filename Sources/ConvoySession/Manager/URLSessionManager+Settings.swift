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
    /// Those of ``operationManager``.
    public final var settings: RequestSettings {
        get { operationManager.settings }
        set { operationManager.settings = newValue }
    }

    /// Changes settings, and loses no change that another thread makes at the same time. See
    /// `RequestConfigurable/updateSettings(_:)`.
    public final func updateSettings<Result>(_ update: (inout RequestSettings) throws -> Result) rethrows -> Result {
        try operationManager.updateSettings(update)
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

    /// The queue in which the tasks' operations run: a `RequestOperationQueue` with the limits of the configuration, unless
    /// set. (AFNetworking's property of this name is ``handlerQueue``.)
    public final var operationQueue: OperationQueue {
        get { operationManager.operationQueue }
        set { operationManager.operationQueue = newValue }
    }

    /// How many tasks' operations the queue has.
    public final var queuedOperationCount: Int { operationManager.queuedOperationCount }

    /// Says under which context of a distributed trace each attempt of a task goes out that is made from now on.
    public final var traceContextProvider: URLConnectionOperation.TraceContextProvider? {
        get { operationManager.traceContextProvider }
        set { operationManager.traceContextProvider = newValue }
    }

    /// Tells whether there is a network; `.shared`, unless set. It is not asked by the tasks, and monitors nothing until it is
    /// started.
    public final var reachabilityManager: NetworkReachabilityManager {
        get { operationManager.reachabilityManager }
        set { operationManager.reachabilityManager = newValue }
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
