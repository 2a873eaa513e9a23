import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// Returns the destination of a downloaded file; nil leaves the file in place.
typealias DownloadDestination = @Sendable (_ temporaryFile: URL, _ response: HTTPURLResponse?) -> URL?

/// The interface of a session for the records of its tasks.
protocol TaskSession: AnyObject, Sendable {
    /// The serial queue of handlers.
    var handlerQueue: DispatchQueue { get }
    /// Adds an operation to the session's queue, unless it is in a queue.
    func enqueue(_ operation: HTTPRequestOperation)
    /// Posts a notification for a task, if its settings request them.
    func post(_ name: Notification.Name, of task: SessionTask)
    /// Called when the record and its task are released.
    func forget(_ identifier: Int)
}

/// The state of a task, apart from its operation. The operation retains it until its end, and the returned tasks retain
/// both. A task that has not been resumed is therefore released with its last reference.
final class TaskRecord: Sendable {
    let identifier: Int
    let session: any TaskSession

    private struct State {
        var kind: HTTPRequestKind
        weak var task: SessionTask?
        var description: String?
        var keepsPartialFile = false
        var file: URL?
        var destination: DownloadDestination?
        var download = ProgressAccumulator()
        var upload = ProgressAccumulator()
        /// The number of bytes waiting for the data handler.
        var undelivered = 0
        var waitingTransfer: (@Sendable () -> Void)?
    }

    private let state: Locked<State>

    init(_ identifier: Int, _ kind: HTTPRequestKind, of session: any TaskSession) {
        self.identifier = identifier
        self.session = session
        state = Locked(State(kind: kind))
    }

    deinit { session.forget(identifier) }

    var kind: HTTPRequestKind { state.withLock { $0.kind } }

    var description: String? {
        get { state.withLock { $0.description } }
        set { state.withLock { $0.description = newValue } }
    }

    var keepsPartialFile: Bool { state.withLock { $0.keepsPartialFile } }
    func keepPartialFile() { state.withLock { $0.keepsPartialFile = true } }

    /// The file of a download without a `DownloadOperation`.
    var file: URL? {
        get { state.withLock { $0.file } }
        set { state.withLock { $0.file = newValue } }
    }

    var destination: DownloadDestination? {
        get { state.withLock { $0.destination } }
        set {
            let old = state.withLock { state in
                defer { state.destination = newValue }
                return state.destination
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Turns a data task into a download task. Returns false if it already is one. Previously returned tasks keep their
    /// class.
    func becomeDownload() -> Bool {
        state.withLock { state in
            guard state.kind != .download else { return false }
            state.kind = .download
            state.task = nil
            return true
        }
    }

    /// Returns the task that wraps the operation.
    func task(of operation: HTTPRequestOperation) -> SessionTask {
        let (kind, task) = state.withLock { ($0.kind, $0.task) }
        if let task { return task }
        let made: SessionTask =
            switch kind {
            case .data: SessionDataTask(self, of: operation)
            case .upload: SessionUploadTask(self, of: operation)
            case .download: SessionDownloadTask(self, of: operation)
            }
        // The first caller's task is used. The other one must be released outside the lock, because that may release
        // the record.
        return state.withLock { state in
            if let task = state.task { return task }
            state.task = made
            return made
        }
    }

    // MARK: Bytes

    enum Direction { case up, down }

    /// Counts bytes. Returns whether to schedule a call of the handler, which then uses ``takeMoved(_:)``.
    func note(_ direction: Direction, _ bytes: Int64, total: Int64, expected: Int64?) -> Bool {
        state.withLock { state in
            switch direction {
            case .up: state.upload.add(bytes, total: total, expected: expected)
            case .down: state.download.add(bytes, total: total, expected: expected)
            }
        }
    }

    func takeMoved(_ direction: Direction) -> ProgressAccumulator {
        state.withLock { direction == .up ? $0.upload.take() : $0.download.take() }
    }

    /// The size of the data handler's backlog, in bytes, above which the transfer waits.
    private static let undeliveredLimit = 1 << 20

    /// Counts bytes for the data handler. Returns whether the transfer must wait until `then` is called.
    func hold(_ count: Int, then: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.undelivered += count
            guard state.undelivered > Self.undeliveredLimit else { return false }
            state.waitingTransfer = then
            return true
        }
    }

    /// Subtracts bytes that the data handler has processed.
    func release(_ count: Int) {
        let then = state.withLock { state -> (@Sendable () -> Void)? in
            state.undelivered -= count
            return state.undelivered <= Self.undeliveredLimit / 2 ? state.waitingTransfer.take() : nil
        }
        then?()
    }
}

extension TaskRecord {
    /// Creates the first task of a new operation, with the class for its kind.
    func newTask<Task: SessionTask>(of operation: HTTPRequestOperation) -> Task {
        guard let task = task(of: operation) as? Task else {
            preconditionFailure("a task of kind \(kind) is not a \(Task.self)")
        }
        return task
    }
}
