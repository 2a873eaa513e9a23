import ConvoyOperations
import ConvoySupport
import Foundation

/// What is in a queue.
extension DownloadQueue {
    /// Where an entry is.
    public enum State: String, Sendable, Hashable, CaseIterable {
        /// It waits for a slot, for dependencies, for a retry, or for the queue to be started or resumed.
        case waiting
        /// A dependency has failed, and ``FailedDependencyPolicy/hold`` keeps it.
        case blocked
        /// It was paused by itself.
        case paused
        case running
        case finished
        /// Its operation has failed for good: no retry is left, or none can help. It is kept. See ``DownloadQueue/retry(_:)``.
        case failed
        /// The process has ended, or the connection was lost, while it was sent, and it must not be sent again without being
        /// asked for: see ``OutboxRequest/sendsAgainWhenUnknown``.
        case outcomeUnknown
        /// It was cancelled, and is gone. Only in ``DownloadQueue/updates``.
        case cancelled
    }

    /// An entry as it was at a moment.
    public struct Entry: Sendable, Identifiable, Hashable {
        /// What kind of request it is.
        public enum Kind: String, Sendable, Hashable { case download, outbox, upload }

        /// The `id` of the request that was enqueued.
        public let id: UUID
        /// Whether it fetches a file, sends a request, or uploads a file.
        public let kind: Kind
        /// The method of the request.
        public let method: String
        /// The URL of the request.
        public let url: URL
        /// The tag that the request was given.
        public let tag: String?
        /// What has become of it so far.
        public let state: State
        /// The priority of its operation.
        public let priority: Operation.QueuePriority
        /// The entries that it waits for, or has waited for.
        public let dependencies: Set<UUID>
        /// How often it has been tried, in all processes. A pause does not count.
        public let attempts: Int
        /// For a download the bytes of the file that are there; for another request, those of its body that were sent. Of one
        /// that does not run, those of the last stop.
        public let bytesCompleted: Int64
        /// How many there will be; nil while that is unknown.
        public let bytesExpected: Int64?
        /// Where the file of a download is, or will be; nil as long as its name is not known.
        public let file: URL?
        /// The key by which a server recognizes that a request comes again; nil for a download.
        public let idempotencyKey: String?
        /// Why its last attempt has failed, without secrets; nil if it has not.
        public let errorDescription: String?
        /// When the next attempt is due after one that has failed; nil for an entry that waits for no retry.
        public let nextAttemptAt: Date?
        /// The status of the response, if there was one.
        public let statusCode: Int?
        /// When it was enqueued.
        public let enqueuedAt: Date
        /// When it was last begun or ended.
        public let changedAt: Date
    }

    /// All entries in the order in which they were enqueued. Takes time proportional to their number.
    public var entries: [Entry] {
        let (records, operations) = core.state.withLock { ($0.table.ordered, $0.operations) }
        return records.filter { !$0.isNew }.map { Entry($0, operations[$0.row.id], nil) }
    }

    /// The entries that this version cannot read, by their identifiers, as far as it can read these: a later version has
    /// written them, or the disk was damaged. They stay in the database as they are, and do not run.
    public var unreadableEntries: [UUID?] { core.state.withLock { $0.unreadable } }

    /// An entry; nil if there is none of this identifier.
    public func entry(_ id: UUID) -> Entry? {
        let (record, operation) = core.state.withLock { ($0.table[id], $0.operations[id]) }
        guard let record, !record.isNew else { return nil }
        return Entry(record, operation, nil)
    }

    /// The operation of an entry; nil if it is over, or not there. After ``retry(_:)`` it is another one.
    public func operation(for id: UUID) -> HTTPRequestOperation? { core.state.withLock { $0.operations[id] } }

    /// The entries whose state changes from now on, each as it is then. Ends when the queue is closed. To be iterated over
    /// once; each reading of the property makes a new one. How far a transfer is tells its operation.
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

    /// Waits until nothing waits or runs any more: each entry has finished or failed, or is paused or blocked.
    ///
    /// - Throws: ``DownloadQueueError/closed`` if the queue is closed meanwhile; `CancellationError`.
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
    /// - Parameters:
    ///   - operation: knows how far it is, if it runs.
    ///   - shown: a state in place of the record's.
    init(_ record: QueueTable.Record, _ operation: (any QueuedOperation)?, _ shown: DownloadQueue.State?) {
        let (row, status) = (record.row, record.row.status)
        id = row.id
        (method, url, tag) = (row.request.method, row.request.url, row.tag)
        state = shown ?? record.state
        priority = Operation.QueuePriority(rawValue: Int(clamping: status.priority)) ?? .normal
        dependencies = row.dependencies
        attempts = Int(clamping: status.attempts)
        let bytes = record.isExecuting ? operation?.bytes : nil
        (bytesCompleted, bytesExpected) = bytes ?? (status.bytesReceived, status.bytesExpected)
        (errorDescription, statusCode) = (status.error, status.statusCode.map { Int(clamping: $0) })
        enqueuedAt = Self.date(row.enqueued)
        changedAt = Self.date(status.changed)
        nextAttemptAt = status.next.map(Self.date)
        switch row.request.work {
        case .download(let download):
            kind = .download
            file = status.file?.url ?? operation?.finishedFile ?? (download.isDirectory ? nil : download.place)
            idempotencyKey = nil
        case .upload(let upload):
            kind = .upload
            file = upload.file
            idempotencyKey = nil
        case .send:
            kind = .outbox
            file = nil
            idempotencyKey =
                row.request.header
                .first { $0.name.lowercased() == OutboxRequest.keyField.lowercased() }?.value
        }
    }

    private static func date(_ microseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(microseconds) / 1e6) }
}

extension DownloadQueue.Entry: CustomReflectable {
    /// What the entry is and how far, without the secrets that its URL may have.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "id": id, "kind": kind, "method": method, "url": Redaction.url(url.absoluteString), "state": state,
                "attempts": attempts, "bytesCompleted": bytesCompleted, "bytesExpected": bytesExpected as Any,
                "file": file as Any, "errorDescription": errorDescription as Any, "statusCode": statusCode as Any,
            ])
    }
}
