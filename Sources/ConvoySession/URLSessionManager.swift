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

/// Makes tasks with common settings and handlers. The counterpart of `AFURLSessionManager`.
///
/// A task wraps an operation (``SessionTask/operation``), which runs in the manager's queue, over the manager's own
/// connections and network thread. A new task is suspended; `resume()` starts it.
///
/// A manager need not be invalidated: it is released, with its thread and connections, after its last reference is gone
/// and its tasks have ended; a suspended task holds neither. ``invalidate(cancellingTasks:resetting:)`` ends it at once, or when its tasks have ended.
///
/// The manager's handlers run one at a time on ``handlerQueue``, in the order of events; those of a task, passed when
/// it is made, on `completionQueue`. All members can be used from any thread. Changed settings apply to later tasks;
/// handlers are read when they are called.
open class URLSessionManager: RequestConfigurable, @unchecked Sendable {
    /// The settings from the initializer.
    public final let configuration: SessionConfiguration

    /// The manager that makes the operations of the tasks, with its settings.
    package final let operationManager: HTTPRequestOperationManager

    /// The serial queue on which the manager's handlers run and notifications are posted. The counterpart of
    /// `AFURLSessionManager.operationQueue`, its delegate queue. Handlers may block it, which delays tasks that wait
    /// for a decision.
    public final let handlerQueue = DispatchQueue(label: "Convoy.Session")

    let handlers = HandlerTable()
    private let current: Locked<Session>

    /// Makes a manager with a new session.
    ///
    /// - Parameters:
    ///   - configuration: The settings, by default `.default`.
    ///   - completionQueue: The queue of the tasks' handlers; nil is the main queue.
    public convenience init(configuration: SessionConfiguration = .default, completionQueue: DispatchQueue? = nil) {
        self.init(
            operations: HTTPRequestOperationManager(completionQueue: completionQueue), configuration: configuration)
    }

    /// Makes a manager with the settings of another and a new session, without its handlers and tasks. The two share
    /// the objects among the settings: the stores of cookies and credentials, the cache, the completion queue and
    /// group.
    public convenience init(copying manager: URLSessionManager) {
        self.init(configuration: manager.configuration, completionQueue: manager.completionQueue)
        takeSettings(of: manager)
    }

    /// Copies the settings except for the transport and the notifications, which belong to the session.
    final func takeSettings(of manager: URLSessionManager) {
        operationManager.takeSettings(of: manager.operationManager)
        currentSession.useTransport()
    }

    /// - Parameter operations: A new manager, to which the settings are applied.
    init(operations: HTTPRequestOperationManager, configuration: SessionConfiguration) {
        (self.configuration, operationManager) = (configuration, operations)
        configuration.apply(to: operations)
        current = Locked(Session(operations, configuration, handlers, handlerQueue))
    }

    deinit { currentSession.managerDidLeave() }

    var currentSession: Session { current.withLock { $0 } }

    // MARK: Tasks

    /// The tasks that have not ended, in the order in which they were made. Unlike in AFNetworking, this does not
    /// block.
    public final var tasks: [SessionTask] { currentSession.tasks }
    /// The data tasks that have not ended, without upload tasks.
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
    /// posted, and the thread ends with all connections. A second call only cancels the tasks, if `cancellingTasks` is
    /// true.
    ///
    /// - Parameters:
    ///   - cancellingTasks: Whether to cancel all tasks; otherwise the session waits for all of them, including
    ///     suspended ones.
    ///   - resetting: Whether the manager gets a new session at once and keeps its handlers; see ``resetSession()``.
    ///     Otherwise they are released at the end.
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

    /// Gives the manager a new session with new connections; the tasks of the old one continue. Use it when the network
    /// has changed, or to stop reusing connections.
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

extension URLSessionManager: CustomReflectable {
    /// Empty, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: [], ancestorRepresentation: .suppressed) }
}

/// The settings of later tasks.
extension URLSessionManager {
    /// The settings of later tasks.
    public final var settings: RequestSettings {
        get { operationManager.settings }
        set { operationManager.settings = newValue }
    }

    /// Changes settings atomically. See `RequestConfigurable/updateSettings(_:)`.
    public final func updateSettings<Result>(_ update: (inout RequestSettings) throws -> Result) rethrows -> Result {
        try operationManager.updateSettings(update)
    }

    /// The queue of the tasks' operations: a `RequestOperationQueue` with the limits of the configuration, unless set.
    /// (AFNetworking's property of this name is ``handlerQueue``.)
    public final var operationQueue: OperationQueue {
        get { operationManager.operationQueue }
        set { operationManager.operationQueue = newValue }
    }

    /// The number of operations in the queue.
    public final var queuedOperationCount: Int { operationManager.queuedOperationCount }

    /// Provides the distributed trace context of each attempt, for later tasks.
    public final var traceContextProvider: URLConnectionOperation.TraceContextProvider? {
        get { operationManager.traceContextProvider }
        set { operationManager.traceContextProvider = newValue }
    }

    /// The reachability manager; `.shared`, unless set. Tasks do not use it, and it does not monitor until it is
    /// started.
    public final var reachabilityManager: NetworkReachabilityManager {
        get { operationManager.reachabilityManager }
        set { operationManager.reachabilityManager = newValue }
    }

    /// The limit on the rate of received response bytes, for all tasks together; nil for none.
    public final var receiveRateLimit: RateLimit? {
        get { operationManager.receiveRateLimit }
        set { operationManager.receiveRateLimit = newValue }
    }

    /// The limit on the rate of sent body bytes, for all tasks together; nil for none.
    public final var sendRateLimit: RateLimit? {
        get { operationManager.sendRateLimit }
        set { operationManager.sendRateLimit = newValue }
    }

    /// The maximum number of tasks that run at the same time.
    public final var maxConcurrentOperationCount: Int {
        get { operationManager.maxConcurrentOperationCount }
        set { operationManager.maxConcurrentOperationCount = newValue }
    }

    /// The maximum number of tasks that run at the same time for one host and port.
    public final var maxConcurrentOperationCountPerHost: Int {
        get { operationManager.maxConcurrentOperationCountPerHost }
        set { operationManager.maxConcurrentOperationCountPerHost = newValue }
    }

    /// How many tasks may start in a second, all hosts together; nil, the default, for any number. See
    /// `RequestOperationQueue.maximumStartRate`.
    public final var maximumStartRate: StartRate? {
        get { operationManager.maximumStartRate }
        set { operationManager.maximumStartRate = newValue }
    }

    /// The same for each host.
    public final var maximumStartRatePerHost: StartRate? {
        get { operationManager.maximumStartRatePerHost }
        set { operationManager.maximumStartRatePerHost = newValue }
    }

    /// `operationQueue` if it is a `RequestOperationQueue`; nil otherwise.
    public final var requestOperationQueue: RequestOperationQueue? { operationManager.requestOperationQueue }

    /// Cancels all operations of the queue, including those from elsewhere.
    public final func cancelAllOperations() { operationManager.cancelAllOperations() }

    /// Changes the response serializer atomically. See `HTTPRequestOperationManager.updateResponseSerializer(_:)`.
    public final func updateResponseSerializer(
        _ update: (inout any HTTPResponseSerialization) throws -> Void
    ) rethrows {
        try operationManager.updateResponseSerializer(update)
    }
}
