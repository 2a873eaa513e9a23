import ConvoySupport
import Foundation

/// The writer of a queue's changes, which are written in the order in which they were submitted.
///
/// Changes that arrive during a transaction are combined into the next one, so that many simultaneous changes take as
/// long as one: each transaction waits for the disk.
final class QueueWriter: Sendable {
    /// A closure called on the writer's queue when the changes are on the disk or could not be written. It must return
    /// quickly.
    typealias Completion = @Sendable (DownloadQueueError?) -> Void

    private struct Submission: Sendable {
        var changes: [QueueChange]
        /// Whether to retry the changes later if they cannot be written.
        var isKept: Bool
        var completion: Completion?
    }

    private struct PendingWrites: Sendable {
        var submissions: [Submission] = []
        var isScheduled = false
        var isClosed = false
    }

    /// The database and its unsaved changes, used only on the writer's queue.
    private final class OpenStore: @unchecked Sendable {
        var file: QueueStore?
        /// The changes that could not be written yet.
        var unsaved: [QueueChange] = []
    }

    private let queue = DispatchQueue(label: "Convoy.DownloadQueue.Writer")
    private let backlog = Locked(PendingWrites())
    private let store = OpenStore()
    private let lastFailure = Locked<DownloadQueueError?>(nil)

    init(_ file: sending QueueStore) { store.file = file }

    /// The error of the last failed write; nil once all changes are written.
    var failure: DownloadQueueError? { lastFailure.withLock { $0 } }

    /// Submits changes. This method does not wait, and can be called with a lock held.
    func submit(_ changes: [QueueChange], isKept: Bool = true, completion: Completion? = nil) {
        let (isDue, isClosed) = backlog.withLock { backlog -> (Bool, Bool) in
            guard !backlog.isClosed else { return (false, true) }
            backlog.submissions.append(Submission(changes: changes, isKept: isKept, completion: completion))
            defer { backlog.isScheduled = true }
            return (!backlog.isScheduled, false)
        }
        if isDue { queue.async { self.writeBacklog() } }
        if isClosed, let completion { queue.async { completion(.closed) } }
    }

    /// Writes the submitted changes, and closes the file. Later changes are rejected.
    func close(_ completion: @escaping @Sendable () -> Void) {
        backlog.withLock { $0.isClosed = true }
        queue.async { [self] in
            writeBacklog()
            store.file = nil
            completion()
        }
    }

    private func writeBacklog() {
        let submissions = backlog.withLock { backlog in
            defer {
                backlog.submissions = []
                backlog.isScheduled = false
            }
            return backlog.submissions
        }
        guard !submissions.isEmpty || !store.unsaved.isEmpty else { return }
        let failure = write(submissions)
        lastFailure.withLock { $0 = failure }
    }

    private func write(_ submissions: [Submission]) -> DownloadQueueError? {
        // Write all changes together. If that fails, write them one by one, so that a change that is too large for the
        // disk does not block the others.
        if attempt(store.unsaved + submissions.flatMap(\.changes)) == nil {
            store.unsaved = []
            for submission in submissions { submission.completion?(nil) }
            return nil
        }
        var failure: DownloadQueueError?
        if !store.unsaved.isEmpty {
            failure = attempt(store.unsaved)
            if failure == nil { store.unsaved = [] }
        }
        for submission in submissions {
            // Keep the order: write the unsaved changes first.
            let error = attempt(store.unsaved + submission.changes)
            if error == nil { store.unsaved = [] }
            if error != nil, submission.isKept { store.unsaved += submission.changes }
            failure = store.unsaved.isEmpty ? nil : error
            submission.completion?(error)
        }
        return failure
    }

    private func attempt(_ changes: [QueueChange]) -> DownloadQueueError? {
        guard let file = store.file else { return .closed }
        do throws(SharedQueueError) {
            try file.write(changes)
            return nil
        } catch {
            return DownloadQueueError(error)
        }
    }
}

/// A receipt for submitted changes, which can be waited for on threads that may block.
final class WriteReceipt: Sendable {
    private let result = Locked<DownloadQueueError?>(nil)
    private let isDone = DispatchSemaphore(value: 0)

    func note(_ error: DownloadQueueError?) {
        result.withLock { $0 = error }
        isDone.signal()
    }

    /// Waits until the changes are on the disk.
    func wait() throws(DownloadQueueError) {
        isDone.wait()
        if let error = result.withLock({ $0 }) { throw error }
    }
}
