import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// The operation of an entry. It waits for its queue before it starts, and before it reports its completion.
package protocol QueuedOperation: HTTPRequestOperation, Sendable {
    var link: QueueLink { get }
    /// Pauses and resumes the operation without changing the entry.
    func pauseNow()
    func resumeNow()
    /// The numbers of completed and expected bytes.
    var bytes: (done: Int64, expected: Int64?) { get }
    /// The URL of the operation's file, if any.
    var finishedFile: URL? { get }
}

/// The link between an operation and its entry. A copy of the operation is not linked, and behaves like any other
/// operation.
package final class QueueLink: TransitionInterceptor {
    struct Entry: Sendable {
        let core: QueueCore
        let id: UUID
    }

    private let current = Locked<Entry?>(nil)

    package init() {}

    /// The entry; nil after the operation has finished.
    var entry: Entry? { current.withLock { $0 } }

    func connect(_ core: QueueCore, _ id: UUID) { current.withLock { $0 = Entry(core: core, id: id) } }

    func cut() {
        let old = current.withLock { $0.take() }
        withExtendedLifetime(old) {}
    }

    package func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void
    ) {
        guard let entry, let operation = operation as? any QueuedOperation else { return proceed() }
        entry.core.operation(operation, entry.id, changes: transition, proceed: proceed)
    }

    package func operation(_ operation: URLConnectionOperation, willRetry event: RetryEvent, countedRetries: Int) {
        guard let entry, let operation = operation as? any QueuedOperation else { return }
        entry.core.operation(operation, entry.id, willRetry: event, countedRetries: countedRetries)
    }
}

/// The overrides of queued operations in other modules. Each calls `own`, which calls the implementation of `super`,
/// when the entry has ended, or when the queue allows it.
extension QueueLink {
    package func start(_ operation: any QueuedOperation, _ own: @escaping @Sendable () -> Void) {
        guard let entry else { return own() }
        entry.core.operationWillStart(operation, entry.id, begin: own)
    }

    package func setPaused(_ isPaused: Bool, _ operation: any QueuedOperation, _ own: () -> Void) {
        guard let entry else { return own() }
        entry.core.setPaused(isPaused, entry.id, by: operation)
    }

    package func cancel(_ operation: any QueuedOperation, _ own: () -> Void) {
        guard let entry else { return own() }
        entry.core.cancel(entry.id, by: operation, cancelNow: own)
    }
}

/// A type that creates the operations of uploads for queues. It is implemented by `ConvoyUploads`, which depends on
/// this module.
package protocol QueuedUploadMaking: AnyObject, SendableMetatype {
    /// Creates the operation of an entry.
    static func queuedOperation(
        _ request: URLRequest, _ upload: StoredUpload
    ) throws(DownloadQueueError) -> any QueuedOperation

    /// Removes the files that an incomplete upload has left beside its file. Blocks.
    static func removeLeftovers(of upload: StoredUpload, for url: URL)
}

/// The lookup of the module that creates uploads.
package enum QueuedUploads {
    /// The type that creates uploads; nil if the program does not contain it. It is looked up by name, because a
    /// restored queue must find it even if the program has not used that module yet.
    package static let maker = NSClassFromString("ConvoyUploads.QueuedUploadMaker") as? any QueuedUploadMaking.Type
}

/// The operation of a download entry.
final class QueuedDownloadOperation: DownloadOperation, QueuedOperation, @unchecked Sendable {
    let link = QueueLink()

    override func start() {
        guard let entry = link.entry else { return super.start() }
        entry.core.operationWillStart(self, entry.id) { self.startNow() }
    }

    override func pause() {
        guard let entry = link.entry else { return super.pause() }
        entry.core.setPaused(true, entry.id, by: self)
    }

    override func resume() {
        guard let entry = link.entry else { return super.resume() }
        entry.core.setPaused(false, entry.id, by: self)
    }

    override func cancel() {
        guard let entry = link.entry else { return super.cancel() }
        entry.core.cancel(entry.id, by: self) { self.cancelNow() }
    }

    override func willCommit(partialFile: String, as place: URL) throws {
        guard let entry = link.entry else { return }
        try entry.core.downloadWillCommit(self, entry.id, partialFile: partialFile, as: place)
    }

    private func startNow() { super.start() }
    func pauseNow() { super.pause() }
    func resumeNow() { super.resume() }
    private func cancelNow() { super.cancel() }

    var bytes: (done: Int64, expected: Int64?) {
        let progress = downloadProgress
        return (progress.bytesReceived, progress.bytesExpected)
    }
    var finishedFile: URL? { fileURL }
}

/// The operation of an entry that sends a request. Its overrides are the same as in ``QueuedDownloadOperation``, but
/// cannot be shared, because each class calls its own `super`.
final class QueuedRequestOperation: HTTPRequestOperation, QueuedOperation, @unchecked Sendable {
    let link = QueueLink()
    /// Whether the operation may be stopped and sent again.
    private let isPausable = Locked(true)

    /// Prevents pauses once the operation has begun, because the request must not be sent twice.
    func forbidPauses() { isPausable.withLock { $0 = false } }

    override func start() {
        guard let entry = link.entry else { return super.start() }
        entry.core.operationWillStart(self, entry.id) { self.startNow() }
    }

    override func pause() {
        guard let entry = link.entry else { return super.pause() }
        entry.core.setPaused(true, entry.id, by: self)
    }

    override func resume() {
        guard let entry = link.entry else { return super.resume() }
        entry.core.setPaused(false, entry.id, by: self)
    }

    override func cancel() {
        guard let entry = link.entry else { return super.cancel() }
        entry.core.cancel(entry.id, by: self) { self.cancelNow() }
    }

    private func startNow() { super.start() }
    func pauseNow() { if isPausable.withLock({ $0 }) || !isExecuting { super.pause() } }
    func resumeNow() { super.resume() }
    private func cancelNow() { super.cancel() }

    var bytes: (done: Int64, expected: Int64?) {
        let progress = transferProgress
        return (progress.bytesSent, progress.bytesExpectedToSend)
    }
    var finishedFile: URL? { nil }
}
