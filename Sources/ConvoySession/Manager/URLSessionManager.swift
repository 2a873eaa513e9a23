import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Makes tasks, with common settings, and decides about them in handlers. The counterpart of `AFURLSessionManager`.
///
/// A task is an operation underneath (``SessionTask/operation``), which runs in the manager's queue, over connections and a
/// network thread of the manager's own. A task that was made is suspended; `resume()` begins it.
///
/// A manager needs no end: when nobody refers to it any more, and its tasks have ended, it is gone with its thread and its
/// connections. ``invalidate(cancellingTasks:resetting:)`` ends it at once, or when its tasks have ended.
///
/// The handlers run one at a time on ``handlerQueue``, in the order in which things happen; those of a task, which are given
/// when it is made, on `completionQueue`. All members can be used from any thread. Changed settings apply to tasks that are
/// made afterwards; handlers are read when they are called.
open class URLSessionManager: RequestConfigurable, @unchecked Sendable {
    /// The settings, as they were given.
    public final let configuration: SessionConfiguration

    /// What makes the operations of the tasks. Its settings are theirs.
    public final let operationManager: HTTPRequestOperationManager

    /// Where the handlers of the manager run, one at a time, and the notifications are posted. The counterpart of
    /// `AFURLSessionManager.operationQueue`, the queue of its delegate. They may block it for a while: tasks that wait for an
    /// answer wait longer.
    public final let handlerQueue = DispatchQueue(label: "Convoy.Session")

    let handlers = HandlerTable()
    private let current: Locked<Session>

    /// A manager with a session of its own.
    ///
    /// - Parameters:
    ///   - configuration: the settings; `.default` unless given.
    ///   - completionQueue: where the handlers of tasks run; nil is the main queue.
    public convenience init(configuration: SessionConfiguration = .default, completionQueue: DispatchQueue? = nil) {
        self.init(
            operations: HTTPRequestOperationManager(completionQueue: completionQueue), configuration: configuration)
    }

    /// A manager with the settings of another, and a session of its own: no handlers, and no tasks. Both share what are
    /// objects: the stores of cookies and credentials, the cache, the completion queue and group.
    public convenience init(copying manager: URLSessionManager) {
        self.init(configuration: manager.configuration, completionQueue: manager.completionQueue)
        takeSettings(of: manager)
    }

    /// The settings, but for the transport and the notifications, which belong to the session.
    final func takeSettings(of manager: URLSessionManager) {
        operationManager.takeSettings(of: manager.operationManager)
        currentSession.useTransport()
    }

    /// - Parameter operations: a new manager, which gets the settings.
    init(operations: HTTPRequestOperationManager, configuration: SessionConfiguration) {
        (self.configuration, operationManager) = (configuration, operations)
        configuration.apply(to: operations)
        current = Locked(Session(operations, configuration, handlers, handlerQueue))
    }

    var currentSession: Session { current.withLock { $0 } }

    // MARK: Tasks

    /// The tasks that have not ended, in the order in which they were made. Unlike in AFNetworking, asking for them blocks
    /// nobody.
    public final var tasks: [SessionTask] { currentSession.tasks }
    /// The data tasks that have not ended, but for upload tasks.
    public final var dataTasks: [SessionDataTask] {
        tasks.compactMap { $0 is SessionUploadTask ? nil : $0 as? SessionDataTask }
    }
    /// The upload tasks that have not ended.
    public final var uploadTasks: [SessionUploadTask] { tasks.compactMap { $0 as? SessionUploadTask } }
    /// The download tasks that have not ended.
    public final var downloadTasks: [SessionDownloadTask] { tasks.compactMap { $0 as? SessionDownloadTask } }

    // MARK: The end

    /// Ends the session. No task is made any more: those that are asked for fail with ``SessionError/invalidated``.
    ///
    /// When the last task has ended, ``sessionDidBecomeInvalidHandler`` is called, `networkingSessionDidInvalidate` is
    /// posted, and the thread ends with all connections. Does nothing more the second time, but cancels if that is asked for.
    ///
    /// - Parameters:
    ///   - cancellingTasks: whether all tasks are cancelled; otherwise those that run go on, and those that are suspended are
    ///     waited for.
    ///   - resetting: whether the manager gets a new session at once, and keeps its handlers; see ``resetSession()``.
    ///     Otherwise it lets go of them in the end.
    public final func invalidate(cancellingTasks: Bool, resetting: Bool = false) {
        let ending: Session
        if resetting {
            let fresh = Session(operationManager, configuration, handlers, handlerQueue)
            ending = current.withLock { current in
                defer { current = fresh }
                return current
            }
        } else {
            ending = currentSession
        }
        ending.invalidate(cancels: cancellingTasks, forgetsHandlers: !resetting) { [weak self] in
            NotificationCenter.default.post(name: .networkingSessionDidInvalidate, object: self)
        }
    }

    /// Gives the manager a new session, with new connections; the tasks of the old one go on. For when the network has
    /// changed, or connections are not to be used again.
    public final func resetSession() { invalidate(cancellingTasks: false, resetting: true) }
}

extension URLSessionManager: CustomStringConvertible {
    /// The class, the address, the base URL without a password, if there is one, and how many tasks have not ended.
    public final var description: String {
        let secrets = operationManager.connectionConfiguration.secrets
        let base = operationManager.baseURL.map { "baseURL: \(Redaction.url($0.absoluteString, secrets)), " } ?? ""
        return "<\(type(of: self)): \(Unmanaged.passUnretained(self).toOpaque()), \(base)\(tasks.count) tasks>"
    }
}

extension URLSessionManager: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: [], ancestorRepresentation: .suppressed) }
}
