import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// Says where the file of a download is to be; nil leaves it where it is.
typealias DownloadDestination = @Sendable (_ temporaryFile: URL, _ response: HTTPURLResponse?) -> URL?

/// What a task's record needs of its session.
protocol TaskSession: AnyObject, Sendable {
    /// Where handlers run, one at a time.
    var handlerQueue: DispatchQueue { get }
    /// Puts an operation into the session's queue, unless a queue has it.
    func enqueue(_ operation: HTTPRequestOperation)
    /// Posts a notification of a task.
    func post(_ name: Notification.Name, of task: SessionTask, _ userInfo: [String: any Sendable])
    /// The record is gone, and with it the task.
    func forget(_ identifier: Int)
}

/// What a task is beside its operation. The operation keeps it until it has ended, and the tasks that were handed out keep
/// both: a task that nobody has begun and nobody holds is gone.
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
        var download = MovedBytes()
        var upload = MovedBytes()
        /// Bytes that were handed to the data handler, which has not taken them yet.
        var undelivered = 0
        var waitingTransfer: (@Sendable () -> Void)?
    }

    private let state: Locked<State>

    init(_ identifier: Int, _ kind: HTTPRequestKind, of session: any TaskSession) {
        (self.identifier, self.session) = (identifier, session)
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

    /// The file of a download that is none of a `DownloadOperation`.
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

    /// Whether the data task becomes a download task now. Its tasks that were handed out stay what they are.
    func becomeDownload() -> Bool {
        state.withLock { state in
            guard state.kind != .download else { return false }
            (state.kind, state.task) = (.download, nil)
            return true
        }
    }

    /// The task of the operation.
    func task(of operation: HTTPRequestOperation) -> SessionTask {
        let kind = kind
        if let task = state.withLock({ $0.task }) { return task }
        let made: SessionTask =
            switch kind {
            case .data: SessionDataTask(self, of: operation)
            case .upload: SessionUploadTask(self, of: operation)
            case .download: SessionDownloadTask(self, of: operation)
            }
        // Whoever comes first. A task that is let go of here must not be under the lock, as it may end the record.
        let task = state.withLock { state -> SessionTask? in
            if state.task == nil { state.task = made }
            return state.task
        }
        return task ?? made
    }

    // MARK: Bytes

    enum Direction { case up, down }

    /// Notes bytes. Returns whether a handler is to be told, who then asks ``takeMoved(_:)``.
    func note(_ direction: Direction, _ bytes: Int64, total: Int64, expected: Int64?) -> Bool {
        state.withLock { state in
            switch direction {
            case .up: state.upload.add(bytes, total: total, expected: expected)
            case .down: state.download.add(bytes, total: total, expected: expected)
            }
        }
    }

    func takeMoved(_ direction: Direction) -> MovedBytes {
        state.withLock { direction == .up ? $0.upload.take() : $0.download.take() }
    }

    /// How many bytes of a body wait for the data handler at most, before the transfer waits for it.
    private static let undeliveredLimit = 1 << 20

    /// Notes bytes for the data handler. Returns whether the transfer is to wait until `then` is called.
    func hold(_ count: Int, then: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.undelivered += count
            guard state.undelivered > Self.undeliveredLimit else { return false }
            state.waitingTransfer = then
            return true
        }
    }

    /// The data handler has taken bytes.
    func release(_ count: Int) {
        let then = state.withLock { state -> (@Sendable () -> Void)? in
            state.undelivered -= count
            return state.undelivered <= Self.undeliveredLimit / 2 ? state.waitingTransfer.take() : nil
        }
        then?()
    }
}

extension TaskRecord {
    /// The first task of a new operation, of the class that its kind has.
    func newTask<Task: SessionTask>(of operation: HTTPRequestOperation) -> Task {
        guard let task = task(of: operation) as? Task else {
            preconditionFailure("a task of kind \(kind) is no \(Task.self)")
        }
        return task
    }
}
