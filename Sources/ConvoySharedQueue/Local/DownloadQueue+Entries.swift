import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import Foundation

/// The entries of a queue.
extension DownloadQueue {
    /// The state of an entry.
    public enum State: String, Sendable, Hashable, CaseIterable {
        /// The entry is waiting for a slot, for dependencies, for a retry, or for the queue to be started or resumed.
        case waiting
        /// The entry is held by ``FailedDependencyPolicy/hold``, because a dependency has failed.
        case blocked
        /// The entry has been paused individually.
        case paused
        case running
        case finished
        /// The entry has failed permanently: the retries are exhausted, or would not help. The entry is kept. See
        /// ``DownloadQueue/retry(_:)``.
        case failed
        /// The entry was interrupted by the end of the process or a lost connection while its request was being sent.
        /// The request is not sent again automatically: see ``OutboxRequest/sendsAgainWhenUnknown``.
        case outcomeUnknown
        /// The entry was cancelled and removed. This state occurs only in ``DownloadQueue/updates``.
        case cancelled
    }

    /// A snapshot of an entry.
    public struct Entry: Sendable, Identifiable, Hashable {
        /// The `id` of the enqueued request.
        public let id: UUID
        /// Whether the entry downloads a file, sends a request, or uploads a file; never ``WorkKind/plain``.
        public let kind: WorkKind
        /// The method of the request.
        public let method: String
        /// The URL of the request.
        public let url: URL
        /// The tag of the request.
        public let tag: String?
        /// The current state.
        public let state: State
        /// The priority of the entry's operation.
        public let priority: Operation.QueuePriority
        /// The identifiers of the entries that must finish first.
        public let dependencies: Set<UUID>
        /// The number of attempts in all processes. Resuming after a pause does not count as an attempt.
        public let attempts: Int
        /// The number of bytes completed: the stored bytes of the file for a download, and the sent bytes of the body
        /// for any other entry. If the entry is not running, this is the number when it last stopped.
        public let bytesCompleted: Int64
        /// The total number of bytes; nil if unknown.
        public let bytesExpected: Int64?
        /// The destination of a download; nil until the name is known.
        public let file: URL?
        /// The key by which a server recognizes a repeated request; nil for a download.
        public let idempotencyKey: String?
        /// The error of the last attempt, without secrets; nil if it has not failed.
        public let errorDescription: String?
        /// The time of the next attempt after a failure; nil if no retry is pending.
        public let nextAttemptAt: Date?
        /// The status of the response, if one was received.
        public let statusCode: Int?
        /// The time of the `enqueue` call.
        public let enqueuedAt: Date
        /// The time of the last change in the state.
        public let changedAt: Date
    }

    /// All entries, in the order in which they were enqueued. Access takes time proportional to the number of entries.
    public var entries: [Entry] {
        let (records, operations) = core.state.withLock { ($0.table.ordered, $0.operations) }
        return records.filter { !$0.isNew }.map { Entry($0, operations[$0.id], nil) }
    }

    /// The identifiers of entries that this version cannot read, because a later version wrote them or the disk was
    /// damaged; nil for an unreadable identifier. The entries stay in the database unchanged, and do not run.
    public var unreadableEntries: [UUID?] { core.state.withLock { $0.unreadable } }

    /// Returns an entry; nil if no entry has this identifier.
    public func entry(_ id: UUID) -> Entry? {
        let (record, operation) = core.state.withLock { ($0.table[id], $0.operations[id]) }
        guard let record, !record.isNew else { return nil }
        return Entry(record, operation, nil)
    }

    /// Returns the operation of an entry; nil if the entry has ended or does not exist. ``retry(_:)`` creates a new
    /// operation.
    public func operation(for id: UUID) -> HTTPRequestOperation? { core.state.withLock { $0.operations[id] } }

    /// A stream of the entries whose state changes from now on. It ends when the queue is closed. Each access creates a
    /// new stream, which can be iterated only once. For the progress of a transfer, use its operation.
    public var updates: AsyncStream<Entry> {
        let (stream, continuation) = AsyncStream.makeStream(of: Entry.self)
        let key = UUID()
        continuation.onTermination = { [weak core] _ in
            let old = core?.state.withLock { $0.listeners.removeValue(forKey: key) }
            withExtendedLifetime(old) {}
        }
        let isClosing = core.state.withLock { state in
            if !state.isClosing { state.listeners[key] = continuation }
            return state.isClosing
        }
        if isClosing { continuation.finish() }
        return stream
    }

    /// Waits until no entry is waiting or running: each entry has finished or failed, or is paused or blocked.
    ///
    /// - Throws: ``DownloadQueueError/closed`` if the queue is closed in the meantime; `CancellationError`.
    public func waitUntilAllFinished() async throws {
        let key = UUID()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let result = core.state.withLock { state -> Result<Void, any Error>? in
                    if state.isClosing { return .failure(DownloadQueueError.closed) }
                    if state.table.pendingCount == 0, state.endingCount == 0 { return .success(()) }
                    if Task.isCancelled { return .failure(CancellationError()) }
                    state.waiters[key] = { continuation.resume(with: $0) }
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: { [core] in
            core.state.withLock { $0.waiters.removeValue(forKey: key) }?(.failure(CancellationError()))
        }
    }
}

extension DownloadQueue.Entry {
    /// Creates a snapshot of an entry.
    ///
    /// - Parameters:
    ///   - operation: The operation, which provides the progress.
    ///   - shown: A state that overrides the record's.
    init(_ record: QueueRecord, _ operation: (any QueuedOperation)?, _ shown: DownloadQueue.State?) {
        let (request, standing, progress) = (record.request, record.standing, record.progress)
        id = record.id
        method = request.method
        url = request.url
        tag = record.tag
        state = shown ?? record.state
        priority = Operation.QueuePriority(rawValue: record.priority) ?? .normal
        dependencies = record.dependencies
        attempts = standing.attempts
        (bytesCompleted, bytesExpected) =
            (record.isExecuting ? operation?.bytes : nil) ?? (progress.received, progress.expected)
        errorDescription = standing.error
        statusCode = standing.statusCode
        enqueuedAt = Date(microseconds: record.enqueued)
        changedAt = Date(microseconds: standing.changed)
        nextAttemptAt = record.nextAttempt.map(Date.init(microseconds:))
        switch request.work {
        case .download(let download):
            kind = .download
            file = progress.file?.url ?? operation?.finishedFile ?? (download.isDirectory ? nil : download.place)
            idempotencyKey = nil
        case .upload(let upload):
            kind = .upload
            file = upload.file
            idempotencyKey = nil
        case .send:
            kind = .outbox
            file = nil
            idempotencyKey =
                request.header.first { $0.name.lowercased() == OutboxRequest.keyField.lowercased() }?.value
        }
    }
}

extension DownloadQueue.Entry: OpaqueReflectable {
    /// The entry and its progress, without secrets in the URL.
    package var shownChildren: KeyValuePairs<String, Any> {
        [
            "id": id, "kind": kind, "method": method, "url": Redaction.url(url.absoluteString), "state": state,
            "attempts": attempts, "bytesCompleted": bytesCompleted, "bytesExpected": bytesExpected as Any,
            "file": file as Any, "errorDescription": errorDescription as Any, "statusCode": statusCode as Any,
        ]
    }
}
