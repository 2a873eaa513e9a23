import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The tasks of a manager, from its initialization or last reset until its invalidation.
///
/// Tasks are referenced weakly: the queue retains a running task, and the caller retains a task that has not been
/// resumed. Therefore, neither sessions nor tasks require an explicit release.
final class Session: TaskSession {
    let handlers: HandlerTable
    let handlerQueue: DispatchQueue
    let files: TemporaryFiles
    private let operations: HTTPRequestOperationManager
    private let transport: SessionTransport
    private let headers: [String: String]
    private let cachePolicy: URLRequest.CachePolicy
    private let allowsCellularAccess: Bool

    fileprivate enum Phase {
        case open
        /// The session creates no new tasks and waits for the existing ones to end.
        case ending
        case invalid
    }

    fileprivate struct Entry {
        weak var operation: HTTPRequestOperation?
    }

    fileprivate struct Registry {
        var phase = Phase.open
        var entries: [Int: Entry] = [:]
        var lastIdentifier = 0
        /// Whether the handlers are released along with the session.
        var forgetsHandlers = true
        var whenInvalid: (@Sendable () -> Void)?
    }

    private let registry = Locked(Registry())

    init(
        _ operations: HTTPRequestOperationManager, _ configuration: SessionConfiguration, _ handlers: HandlerTable,
        _ handlerQueue: DispatchQueue
    ) {
        self.operations = operations
        self.handlers = handlers
        self.handlerQueue = handlerQueue
        headers = configuration.httpAdditionalHeaders
        cachePolicy = configuration.requestCachePolicy
        allowsCellularAccess = configuration.allowsCellularAccess
        files = TemporaryFiles(configuration.temporaryDirectory)
        transport = SessionTransport(configuration.networkThread ?? NetworkThread())
        useTransport()
    }

    /// Makes subsequent operations use the session's connections and leave notifications to the session.
    func useTransport() {
        operations.setTransport(transport)
        operations.setPostsNotifications(false)
    }

    // MARK: Tasks

    /// Creates a task from a new operation. In an invalid session the task fails.
    @discardableResult
    func adopt(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) -> TaskRecord {
        let (identifier, entered) = registry.withLock { registry in
            registry.lastIdentifier += 1
            guard registry.phase == .open else { return (registry.lastIdentifier, false) }
            registry.entries[registry.lastIdentifier] = Entry(operation: operation)
            return (registry.lastIdentifier, true)
        }
        let record = TaskRecord(identifier, kind, of: self)
        if !entered { operation.fail(with: SessionError.invalidated) }
        if !headers.isEmpty || cachePolicy != .useProtocolCachePolicy {
            operation.changeRequest { request in
                let withheld = operations.withheldFields(headers.keys, of: request)
                let missing = headers.filter {
                    !withheld.contains($0.key) && request.value(forHTTPHeaderField: $0.key) == nil
                }
                // Unlike `setValue`, this keeps invalid values, which are reported when the request is sent.
                request.allHTTPHeaderFields = (request.allHTTPHeaderFields ?? [:]).merging(missing) { own, _ in own }
                if request.cachePolicy == .useProtocolCachePolicy { request.cachePolicy = cachePolicy }
            }
        }
        let isBarred = !allowsCellularAccess || operation.barsCellularAccess
        operation.setDelegate(TaskDelegate(record, self, isBarredFromCellular: isBarred))
        operation.whenDelivered { [weak operation] in
            guard let operation else { return }
            self.didEnd(record, operation)
        }
        return record
    }

    /// Returns the record of an operation that belongs to a task.
    static func record(of operation: HTTPRequestOperation) -> TaskRecord? { (operation.delegate as? TaskDelegate)?.record }

    func enqueue(_ operation: HTTPRequestOperation) { operations.enqueueUnlessTaken(operation) }

    /// The tasks that have not ended, in order of creation.
    var tasks: [SessionTask] {
        live.compactMap { operation in Self.record(of: operation)?.task(of: operation) }
    }

    private var live: [HTTPRequestOperation] {
        registry.withLock { registry in
            registry.entries.sorted { $0.key < $1.key }.compactMap { $0.value.operation }
        }
    }

    func post(_ name: Notification.Name, of task: SessionTask) {
        if task.operation.postsNotifications { post(name, of: task, [:]) }
    }

    func post(_ name: Notification.Name, of task: SessionTask, _ userInfo: [String: any Sendable]) {
        handlerQueue.async { NotificationCenter.default.post(name: name, object: task, userInfo: userInfo) }
    }

    /// Applies the settings for all operations to a download.
    func giveSettings(to operation: HTTPRequestOperation) {
        operations.adopt(operation)
        operation.responseSerializer = HTTPResponseSerializer(statusesOf: operations.responseSerializer)
    }

    // MARK: The end of a task

    /// Called when the operation has ended and its handlers have run, possibly on the network thread.
    private func didEnd(_ record: TaskRecord, _ operation: HTTPRequestOperation) {
        handlerQueue.async { [self] in
            let error = operation.error
            if let metrics = operation.metrics, let didCollect = handlers.get(\.didCollectMetrics) {
                didCollect(record.task(of: operation), metrics)
            }
            if let didComplete = handlers.get(\.didComplete) { didComplete(record.task(of: operation), error) }
            if operation.postsNotifications {
                let task = record.task(of: operation)
                NotificationCenter.default.post(
                    name: .networkingTaskDidComplete, object: task, userInfo: Self.userInfo(of: task, error))
            }
            let isOver: @Sendable () -> Void = { [self] in remove(record.identifier) }
            guard let download = operation as? DownloadOperation, let place = download.destination, files.contains(place),
                !record.keepsPartialFile, error != nil, operation.isCancelled || download.resumeData == nil
            else { return isOver() }
            // The partial file cannot be resumed. (The next download resumes a partial file next to a destination
            // chosen by the user.)
            BlockingWorkers.shared.perform {
                try? DownloadOperation.removePartialFile(of: place)
                isOver()
            }
        }
    }

    private static func userInfo(of task: SessionTask, _ error: (any Error)?) -> [String: Any] {
        var userInfo: [String: Any] = [TaskNotificationKey.responseSerializer: task.operation.responseSerializer]
        if let file = (task as? SessionDownloadTask)?.fileURL {
            userInfo[TaskNotificationKey.assetPath] = file
        } else {
            if let object = task.operation.responseObject { userInfo[TaskNotificationKey.serializedResponse] = object }
            if let data = task.operation.responseData { userInfo[TaskNotificationKey.responseData] = data }
        }
        if let error { userInfo[TaskNotificationKey.error] = error }
        if let metrics = task.operation.metrics { userInfo[TaskNotificationKey.metrics] = metrics }
        return userInfo
    }

    func forget(_ identifier: Int) { remove(identifier) }

    private func remove(_ identifier: Int) {
        let isLast = registry.withLock { registry in
            guard registry.entries.removeValue(forKey: identifier) != nil else { return false }
            return registry.isOver
        }
        if isLast { becomeInvalid() }
    }

    // MARK: The end of the session

    /// Called when the manager has been released or uses a new session, so that no more tasks are created in this one.
    /// Existing tasks continue, and suspended tasks use neither a thread nor descriptors.
    func managerDidLeave() { transport.keepThreadOnlyWhileUsed() }

    /// Ends the session after its tasks have ended. It creates no new tasks.
    ///
    /// - Parameters:
    ///   - cancels: Whether to cancel the tasks. Otherwise the session also waits for suspended tasks.
    ///   - forgetsHandlers: Whether to release the handlers at the end.
    ///   - then: Called after the session has ended and its handler has run.
    func invalidate(cancels: Bool, forgetsHandlers: Bool, then: @escaping @Sendable () -> Void) {
        let (isFirst, isOver) = registry.withLock { registry in
            guard registry.phase == .open else { return (false, false) }
            registry.phase = .ending
            registry.forgetsHandlers = forgetsHandlers
            registry.whenInvalid = then
            return (true, registry.isOver)
        }
        if cancels {
            // Cancel the newest first, so that the end of a dependency does not start a dependent task.
            for operation in live.reversed() {
                operation.cancel()
                enqueue(operation)
            }
        }
        if isFirst, isOver { becomeInvalid() }
    }

    private func becomeInvalid() {
        handlerQueue.async { [self] in
            let (forgetsHandlers, then) = registry.withLock { registry in
                registry.phase = .invalid
                return (registry.forgetsHandlers, registry.whenInvalid.take())
            }
            handlers.get(\.didBecomeInvalid)?(nil)
            transport.close()
            if forgetsHandlers { handlers.removeAll() }
            then?()
        }
    }
}

extension Session.Registry {
    /// Whether the session is ending and has no tasks. True only once.
    fileprivate var isOver: Bool { phase == .ending && entries.isEmpty }
}

/// The network thread of a session. Operations refer to this object rather than to the thread, so that the thread and
/// its connections end with the session, even if operations are retained.
final class SessionTransport: Transport {
    private struct Threads {
        /// The thread: retained while the session keeps it, and referenced weakly while its connections use it.
        var kept: NetworkThread?
        weak var used: NetworkThread?
        var isClosed = false
    }

    private let threads: Locked<Threads>

    init(_ thread: NetworkThread) { threads = Locked(Threads(kept: thread, used: thread)) }

    /// Lets the thread end whenever no task uses it. A suspended task may never be resumed and needs no thread. A task
    /// that is resumed gets a new one.
    func keepThreadOnlyWhileUsed() {
        let old = threads.withLock { $0.kept.take() }
        withExtendedLifetime(old) {}
    }

    /// Releases the thread. Subsequent calls, which come only from operations with nothing to send, use the shared
    /// thread.
    func close() {
        let old = threads.withLock { threads in
            threads.isClosed = true
            return threads.kept.take()
        }
        withExtendedLifetime(old) {}
    }

    private var current: NetworkThread {
        threads.withLock { threads in
            if let thread = threads.kept ?? (threads.isClosed ? .shared : threads.used) { return thread }
            let thread = NetworkThread()
            threads.used = thread
            return thread
        }
    }

    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any ConnectionDelegate
    ) -> any Connection {
        current.connection(for: request, configuration: configuration, delegate: delegate)
    }

    func perform(_ block: @escaping @Sendable () -> Void) {
        let _: Bool = current.perform(block)
    }

    func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError) { try current.performOrFail(block) }

    var isOfLibrary: Bool { true }
}

/// The errors of a session that cannot make a request.
public enum SessionError: Error, Equatable, Sendable {
    /// The session has been invalidated and creates no new tasks.
    case invalidated
    /// The download directory belongs to another user, is writable by other users, or is not a directory.
    case unsafeDirectory(URL)
    /// The download directory cannot be created, with the `errno`.
    case unusableDirectory(URL, code: Int32)
}

extension SessionError: SelfDescribingError {
    /// A sentence that describes the error.
    public var description: String {
        switch self {
        case .invalidated: "The session has been invalidated."
        case .unsafeDirectory(let url):
            "The download directory \(url.path) is not private: check its owner and permissions."
        case .unusableDirectory(let url, let code):
            "The download directory \(url.path) cannot be created: \(String(cString: strerror(code)))."
        }
    }
}
