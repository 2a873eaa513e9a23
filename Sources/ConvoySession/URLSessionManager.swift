import ConvoyCache
import ConvoyCookies
import ConvoyDownloads
import ConvoyOperations
import ConvoyReachability
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A manager that creates tasks with common settings and handlers. The counterpart of `AFURLSessionManager`.
///
/// A task wraps an operation (``SessionTask/operation``), which runs in the manager's queue and uses the manager's own
/// connections and network thread. A new task is suspended; `resume()` starts it.
///
/// A manager need not be invalidated. It is released, along with its thread and connections, when its last reference is
/// gone and its tasks have ended. Suspended tasks retain neither. ``invalidate(cancellingTasks:resetting:)`` ends the
/// session immediately or when its tasks have ended.
///
/// The manager's handlers run serially on ``handlerQueue``, in the order of the events. The handlers of a task, which
/// are passed when it is created, run on `completionQueue`. All members can be used from any thread. Changed settings
/// apply to subsequent tasks; handlers are read when they are called.
open class URLSessionManager: RequestConfigurable, @unchecked Sendable {
    /// The settings from the initializer.
    public final let configuration: SessionConfiguration

    /// The manager that creates the operations of the tasks, with its settings.
    package final let operationManager: HTTPRequestOperationManager

    /// The serial queue on which the manager's handlers run and notifications are posted. The counterpart of
    /// `AFURLSessionManager.operationQueue`, its delegate queue. Handlers may block it, which delays tasks that wait
    /// for a decision.
    public final let handlerQueue = DispatchQueue(label: "Convoy.Session")

    let handlers = HandlerTable()
    private let current: Locked<Session>

    /// Creates a manager with a new session.
    ///
    /// - Parameters:
    ///   - configuration: The settings, by default `.default`.
    ///   - completionQueue: The queue for the tasks' handlers; nil for the main queue.
    public convenience init(configuration: SessionConfiguration = .default, completionQueue: DispatchQueue? = nil) {
        self.init(
            operations: HTTPRequestOperationManager(completionQueue: completionQueue), configuration: configuration)
    }

    /// Creates a manager with the settings of another and a new session, but without its handlers and tasks. Both share
    /// the objects in the settings: the cookie and credential stores, the cache, and the completion queue and group.
    public convenience init(copying manager: URLSessionManager) {
        self.init(configuration: manager.configuration, completionQueue: manager.completionQueue)
        takeSettings(of: manager)
    }

    /// Copies the settings, except for the transport and the notifications, which belong to the session.
    final func takeSettings(of manager: URLSessionManager) {
        operationManager.takeSettings(of: manager.operationManager)
        currentSession.useTransport()
    }

    /// - Parameter operations: A new manager, to which the settings are applied.
    init(operations: HTTPRequestOperationManager, configuration: SessionConfiguration) {
        self.configuration = configuration
        operationManager = operations
        configuration.apply(to: operations)
        current = Locked(Session(operations, configuration, handlers, handlerQueue))
    }

    deinit { currentSession.managerDidLeave() }

    var currentSession: Session { current.withLock { $0 } }

    // MARK: Tasks

    /// The tasks that have not ended, in order of creation. Unlike in AFNetworking, this does not block.
    public final var tasks: [SessionTask] { currentSession.tasks }
    /// The data tasks that have not ended, excluding upload tasks.
    public final var dataTasks: [SessionDataTask] {
        tasks.compactMap { $0 is SessionUploadTask ? nil : $0 as? SessionDataTask }
    }
    /// The upload tasks that have not ended.
    public final var uploadTasks: [SessionUploadTask] { tasks.compactMap { $0 as? SessionUploadTask } }
    /// The download tasks that have not ended.
    public final var downloadTasks: [SessionDownloadTask] { tasks.compactMap { $0 as? SessionDownloadTask } }

    // MARK: The end

    /// Ends the session. New tasks fail with ``SessionError/invalidated``.
    ///
    /// When the last task has ended, ``sessionDidBecomeInvalidHandler`` is called, `networkingSessionDidInvalidate` is
    /// posted, and the thread ends with all connections. A second call has no effect except that it cancels the tasks
    /// if `cancellingTasks` is true.
    ///
    /// - Parameters:
    ///   - cancellingTasks: Whether to cancel all tasks. Otherwise the session waits for all of them, including
    ///     suspended tasks.
    ///   - resetting: Whether the manager immediately gets a new session and keeps its handlers; see
    ///     ``resetSession()``. Otherwise the handlers are released at the end.
    public final func invalidate(cancellingTasks: Bool, resetting: Bool = false) {
        let ending: Session
        if resetting {
            let fresh = Session(operationManager, configuration, handlers, handlerQueue)
            ending = current.withLock { current in
                defer { current = fresh }
                return current
            }
            ending.managerDidLeave()
        } else {
            ending = currentSession
        }
        ending.invalidate(cancels: cancellingTasks, forgetsHandlers: !resetting) { [weak self] in
            NotificationCenter.default.post(name: .networkingSessionDidInvalidate, object: self)
        }
    }

    /// Gives the manager a new session with new connections. The tasks of the old session continue. Use this method
    /// after the network has changed, or to stop reusing connections.
    public final func resetSession() { invalidate(cancellingTasks: false, resetting: true) }
}

extension URLSessionManager: CustomStringConvertible {
    /// The class, the address, the base URL without its password, and the number of tasks that have not ended.
    public final var description: String {
        let secrets = operationManager.connectionConfiguration.secrets
        let base = operationManager.baseURL.map { "baseURL: \(Redaction.url($0.absoluteString, secrets)), " } ?? ""
        return "<\(type(of: self)): \(Unmanaged.passUnretained(self).toOpaque()), \(base)\(tasks.count) tasks>"
    }
}

extension URLSessionManager: OpaqueReflectable {}

/// The settings for subsequent tasks.
extension URLSessionManager {
    /// The settings for subsequent tasks.
    public final var settings: RequestSettings {
        get { operationManager.settings }
        set { operationManager.settings = newValue }
    }

    /// Changes settings atomically. See `RequestConfigurable/updateSettings(_:)`.
    public final func updateSettings<Result>(_ update: (inout RequestSettings) throws -> Result) rethrows -> Result {
        try operationManager.updateSettings(update)
    }

    /// The queue of the tasks' operations; by default a `RequestOperationQueue` with the limits of the configuration.
    /// (AFNetworking's property of this name is ``handlerQueue``.)
    public final var operationQueue: OperationQueue {
        get { operationManager.operationQueue }
        set { operationManager.operationQueue = newValue }
    }

    /// The number of operations in the queue.
    public final var queuedOperationCount: Int { operationManager.queuedOperationCount }

    /// The provider of the distributed trace context of each attempt, for subsequent tasks.
    public final var traceContextProvider: URLConnectionOperation.TraceContextProvider? {
        get { operationManager.traceContextProvider }
        set { operationManager.traceContextProvider = newValue }
    }

    /// The reachability manager; `.shared` by default. Tasks do not use it, and it does not monitor the network until
    /// it is started.
    public final var reachabilityManager: NetworkReachabilityManager {
        get { operationManager.reachabilityManager }
        set { operationManager.reachabilityManager = newValue }
    }

    /// The limit on the rate of received response bytes, for all tasks combined; nil for no limit.
    public final var receiveRateLimit: RateLimit? {
        get { operationManager.receiveRateLimit }
        set { operationManager.receiveRateLimit = newValue }
    }

    /// The limit on the rate of sent body bytes, for all tasks combined; nil for no limit.
    public final var sendRateLimit: RateLimit? {
        get { operationManager.sendRateLimit }
        set { operationManager.sendRateLimit = newValue }
    }

    /// The maximum number of concurrent tasks.
    public final var maxConcurrentOperationCount: Int {
        get { operationManager.maxConcurrentOperationCount }
        set { operationManager.maxConcurrentOperationCount = newValue }
    }

    /// The maximum number of concurrent tasks per host and port.
    public final var maxConcurrentOperationCountPerHost: Int {
        get { operationManager.maxConcurrentOperationCountPerHost }
        set { operationManager.maxConcurrentOperationCountPerHost = newValue }
    }

    /// The maximum rate at which tasks start, for all hosts combined; nil, the default, for no limit. See
    /// `RequestOperationQueue.maximumStartRate`.
    public final var maximumStartRate: StartRate? {
        get { operationManager.maximumStartRate }
        set { operationManager.maximumStartRate = newValue }
    }

    /// The maximum rate at which tasks start, for each host.
    public final var maximumStartRatePerHost: StartRate? {
        get { operationManager.maximumStartRatePerHost }
        set { operationManager.maximumStartRatePerHost = newValue }
    }

    /// `operationQueue` if it is a `RequestOperationQueue`; nil otherwise.
    public final var requestOperationQueue: RequestOperationQueue? { operationManager.requestOperationQueue }

    /// Cancels all operations in the queue, including those added by other code.
    public final func cancelAllOperations() { operationManager.cancelAllOperations() }

    /// Changes the response serializer atomically. See `HTTPRequestOperationManager.updateResponseSerializer(_:)`.
    public final func updateResponseSerializer(
        _ update: (inout any HTTPResponseSerialization) throws -> Void
    ) rethrows {
        try operationManager.updateResponseSerializer(update)
    }
}
