import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// The operation of an entry. It waits for its queue before it starts, and before it reports its completion.
protocol QueuedOperation: HTTPRequestOperation, Sendable {
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
final class QueueLink: TransitionInterceptor {
    struct Entry: Sendable {
        let core: QueueCore
        let id: UUID
    }

    private let current = Locked<Entry?>(nil)

    /// The entry; nil after the operation has finished.
    var entry: Entry? { current.withLock { $0 } }

    func connect(_ core: QueueCore, _ id: UUID) { current.withLock { $0 = Entry(core: core, id: id) } }

    func cut() {
        let old = current.withLock { $0.take() }
        withExtendedLifetime(old) {}
    }

    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void
    ) {
        guard let entry, let operation = operation as? any QueuedOperation else { return proceed() }
        entry.core.operation(operation, entry.id, changes: transition, proceed: proceed)
    }

    func operation(_ operation: URLConnectionOperation, willRetry event: RetryEvent, countedRetries: Int) {
        guard let entry, let operation = operation as? any QueuedOperation else { return }
        entry.core.operation(operation, entry.id, willRetry: event, countedRetries: countedRetries)
    }
}

/// The overrides of queued operations. Each calls `own`, which calls the implementation of `super`, when the entry has
/// ended, or when the queue allows it.
extension QueueLink {
    func start(_ operation: any QueuedOperation, _ own: @escaping @Sendable () -> Void) {
        guard let entry else { return own() }
        entry.core.operationWillStart(operation, entry.id, begin: own)
    }

    func setPaused(_ isPaused: Bool, _ operation: any QueuedOperation, _ own: () -> Void) {
        guard let entry else { return own() }
        entry.core.setPaused(isPaused, entry.id, by: operation)
    }

    func cancel(_ operation: any QueuedOperation, _ own: () -> Void) {
        guard let entry else { return own() }
        entry.core.cancel(entry.id, by: operation, cancelNow: own)
    }
}

// The overrides cannot be shared, because each class calls its own `super`.

/// The operation of a download entry.
final class QueuedDownloadOperation: DownloadOperation, QueuedOperation, @unchecked Sendable {
    let link = QueueLink()

    override func start() { link.start(self) { super.start() } }
    override func pause() { link.setPaused(true, self) { pauseNow() } }
    override func resume() { link.setPaused(false, self) { resumeNow() } }
    override func cancel() { link.cancel(self) { super.cancel() } }

    func pauseNow() { super.pause() }
    func resumeNow() { super.resume() }

    /// Records each complete file before it is renamed to its final name.
    func recordFile() {
        commitCheck = { [weak self] partialFile, place in
            guard let self, let entry = link.entry else { return }
            try entry.core.downloadWillCommit(self, entry.id, partialFile: partialFile, as: place)
        }
    }

    override func copySettings(to copy: URLConnectionOperation) {
        super.copySettings(to: copy)
        // A copy has no entry.
        (copy as? DownloadOperation)?.commitCheck = nil
    }

    var bytes: (done: Int64, expected: Int64?) {
        let progress = downloadProgress
        return (progress.bytesReceived, progress.bytesExpected)
    }
    var finishedFile: URL? { fileURL }
}

/// The operation of an entry that sends a request.
final class QueuedRequestOperation: HTTPRequestOperation, QueuedOperation, @unchecked Sendable {
    let link = QueueLink()
    /// Whether the operation may be stopped and sent again.
    private let isPausable = Locked(true)

    /// Prevents pauses once the operation has begun, because the request must not be sent twice.
    func forbidPauses() { isPausable.withLock { $0 = false } }

    override func start() { link.start(self) { super.start() } }
    override func pause() { link.setPaused(true, self) { pauseNow() } }
    override func resume() { link.setPaused(false, self) { resumeNow() } }
    override func cancel() { link.cancel(self) { super.cancel() } }

    func pauseNow() { if isPausable.withLock({ $0 }) || !isExecuting { super.pause() } }
    func resumeNow() { super.resume() }

    var bytes: (done: Int64, expected: Int64?) {
        let progress = transferProgress
        return (progress.bytesSent, progress.bytesExpectedToSend)
    }
    var finishedFile: URL? { nil }
}

/// The operation of an upload entry.
final class QueuedUploadOperation: UploadOperation, QueuedOperation, @unchecked Sendable {
    let link = QueueLink()

    override func start() { link.start(self) { super.start() } }
    override func pause() { link.setPaused(true, self) { pauseNow() } }
    override func resume() { link.setPaused(false, self) { resumeNow() } }
    override func cancel() { link.cancel(self) { super.cancel() } }

    func pauseNow() { super.pause() }
    func resumeNow() { super.resume() }

    var bytes: (done: Int64, expected: Int64?) {
        let progress = uploadProgress
        return (progress.bytesConfirmed, progress.bytesExpected)
    }
    var finishedFile: URL? { nil }
}
