import ConvoyOperations
import ConvoySupport
import Foundation

/// An operation of an entry. It asks its queue before it starts, and before it reports its end.
protocol QueuedOperation: HTTPRequestOperation, Sendable {
    var link: QueueLink { get }
    /// Pauses and resumes the operation without the entry.
    func pauseNow()
    func resumeNow()
    /// The bytes of it that are there, and that there will be.
    var bytes: (done: Int64, expected: Int64?) { get }
    /// Where its file is; nil if it has none.
    var finishedFile: URL? { get }
}

/// What connects an operation with its entry; nothing in a copy of the operation, which is one like others.
final class QueueLink: OperationSupervisor {
    struct Entry: Sendable {
        let core: QueueCore
        let id: UUID
    }

    private let current = Locked<Entry?>(nil)

    /// The entry; nil once the operation has ended.
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

/// A download of an entry.
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

/// A request of an entry that sends. Its overrides are those of ``QueuedDownloadOperation``: each class calls its own
/// `super`, which nothing that both share could do.
final class QueuedRequestOperation: HTTPRequestOperation, QueuedOperation, @unchecked Sendable {
    let link = QueueLink()
    /// Whether it may be stopped and sent again.
    private let isPausable = Locked(true)

    /// It goes on once it has begun, as it must not be sent twice.
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
