import ConvoyOperations
import ConvoySupport
import Foundation

/// Downloads and requests that outlive the process: what was enqueued, paused or running when it ended comes back in the
/// next one. The counterpart of AFNetworking's archived operations, and of a background session.
///
/// ```swift
/// let queue = try DownloadQueue(directory: folder, manager: manager) { operation, entry in
///     operation.setCompletionHandler(success: { _, file in … }, failure: { _, error in … })
/// }
/// queue.start()
///
/// let photo = DownloadRequest(url, destination: file)
/// var receipt = OutboxRequest(post, body: .data(json))
/// receipt.dependencies = [photo.id]
/// try queue.enqueue([photo, receipt])
/// ```
///
/// ### What is promised
/// When `enqueue` has returned, the entry is on the disk: it survives the end of the process at any moment, and of the
/// system. Entries come back in order, with their dependencies, priorities and tags, paused if they were, with the attempts
/// so far. A download goes on where it stopped, under the rules of ``DownloadOperation``. What has finished is not done
/// again: that it is about to be sent is stored before its first byte can go out, and what has become of it before its
/// operation tells anybody. What was under way when the process ended is done again, as ``OutboxRequest`` says.
///
/// ### Entries and operations
/// Each entry that is not over has an operation, which runs in the manager's queue when its dependencies have finished. The
/// operation can be awaited, paused and cancelled like any other: that pauses the entry, and removes it. An operation has
/// the manager's settings, and the plain `HTTPResponseSerializer`. What it has beyond that, the `configure` block of the
/// initializer sets, the same for those that are new and those that come back: handlers, another serializer, and
/// secrets, which are not stored.
///
/// ### Retries
/// An entry that fails in a way that is likely to be temporary, as its `RetryPolicy` says, waits, and is tried again by the
/// same operation, whose handlers run when it has succeeded or failed for good. The time of the next attempt and the count
/// of retries are stored: the next process waits for the rest of the time, and counts on. What has failed for good stays as
/// ``State/failed`` until ``retry(_:)`` or ``cancel(_:)``; what depends on it stays ``State/blocked``, and runs when it has
/// succeeded after all.
///
/// ### Secrets
/// Not stored are the values of `Authorization`, `Cookie`, `Proxy-Authorization` and other header fields that hold secrets by
/// their name, of those in the manager's `sensitiveHeaders`, and of those with a URL that holds one. As long as the process
/// lasts they are sent. In a later one, a request fails with ``DownloadQueueError/missingSecrets(_:)`` unless `configure` has
/// seen to them, and nothing is sent. A URL with a secret is refused. Bodies and tags are stored as they are. All files have the mode
/// 0600.
///
/// ### Files
/// The directory holds the database `queue.sqlite` with its log, `queue.lock`, and the folder `bodies`. It belongs to one
/// queue at a time: while it is open, another one, in this process or another, gets ``DownloadQueueError/inUse(_:process:)``.
///
/// All members can be used from any thread. Only the initializer and `enqueue` wait for the disk. Other changes are on it a
/// moment later: see ``flush()``.
public final class DownloadQueue: Sendable {
    /// Called with each operation that the queue has made, before anything of it is started, on the thread that enqueues,
    /// opens or retries.
    public typealias Configure = @Sendable (_ operation: HTTPRequestOperation, _ entry: Entry) -> Void

    let core: QueueCore

    /// Opens a queue. Nothing runs before ``start()``. Blocks on the disk.
    ///
    /// - Parameters:
    ///   - directory: where it is kept; made if it is not there.
    ///   - manager: whose settings, credentials and queue the operations have.
    ///   - operationQueue: where they run, if not in the manager's queue.
    ///   - retryPolicy: when a failed entry is tried again; nil for the manager's, as a rule not at all.
    ///   - configure: changes each operation that is made, also for entries that come back.
    /// - Throws: ``DownloadQueueError``. A database that is damaged, or not of this kind, is left as it is.
    public init(
        directory: URL, manager: HTTPRequestOperationManager, operationQueue: OperationQueue? = nil,
        retryPolicy: RetryPolicy? = DownloadQueue.standardRetryPolicy, configure: @escaping Configure = { _, _ in }
    ) throws(DownloadQueueError) {
        core = try QueueCore.open(directory, manager, operationQueue, retryPolicy, configure)
    }

    /// A policy for what has time: at most 30 retries in a row that bring nothing, with delays of at most 2, 4, 8 seconds and so
    /// on up to an hour, so that they end after half a day on average; and a retry as soon as a network comes back.
    public static var standardRetryPolicy: RetryPolicy {
        var policy = RetryPolicy(maximumRetryCount: 30)
        (policy.initialDelay, policy.maximumDelay) = (2, 3600)
        policy.retriesWhenNetworkReturns = true
        return policy
    }

    /// Closes the queue, without waiting for that.
    deinit { core.close() }

    /// Where the queue is kept.
    public var directory: URL { core.directory }

    // MARK: Enqueuing

    /// Enqueues a download. When this returns, it is on the disk.
    ///
    /// - Returns: its operation, which was configured.
    /// - Throws: ``DownloadQueueError``; then nothing was enqueued.
    @available(*, noasync, message: "use the asynchronous enqueue(_:), which blocks no thread")
    @discardableResult
    public func enqueue(_ request: DownloadRequest) throws(DownloadQueueError) -> DownloadOperation {
        try only(core.enqueue([request]))
    }

    /// Enqueues a request that sends. When this returns, it is on the disk, with its body.
    ///
    /// - Returns: its operation, which was configured.
    /// - Throws: ``DownloadQueueError``; then nothing was enqueued.
    @available(*, noasync, message: "use the asynchronous enqueue(_:), which blocks no thread")
    @discardableResult
    public func enqueue(_ request: OutboxRequest) throws(DownloadQueueError) -> HTTPRequestOperation {
        try only(core.enqueue([request]))
    }

    /// Enqueues requests in this order, all or none. Thousands take hardly longer than one. They may depend on each other.
    ///
    /// - Returns: their operations in the same order.
    /// - Throws: ``DownloadQueueError``; then nothing was enqueued.
    @available(*, noasync, message: "use the asynchronous enqueue(_:), which blocks no thread")
    @discardableResult
    public func enqueue(_ requests: [any DurableRequest]) throws(DownloadQueueError) -> [HTTPRequestOperation] {
        try core.enqueue(requests)
    }

    /// Enqueues a download. When this returns, it is on the disk. Otherwise as the form that blocks.
    @discardableResult
    public func enqueue(_ request: DownloadRequest) async throws(DownloadQueueError) -> DownloadOperation {
        try only(await enqueueOnWorker([request]))
    }

    /// Enqueues a request that sends. When this returns, it is on the disk. Otherwise as the form that blocks.
    @discardableResult
    public func enqueue(_ request: OutboxRequest) async throws(DownloadQueueError) -> HTTPRequestOperation {
        try only(await enqueueOnWorker([request]))
    }

    /// Enqueues requests in this order, all or none. Otherwise as the form that blocks.
    @discardableResult
    public func enqueue(_ requests: [any DurableRequest]) async throws(DownloadQueueError) -> [HTTPRequestOperation] {
        try await enqueueOnWorker(requests)
    }

    private func enqueueOnWorker(_ requests: [any DurableRequest]) async throws(DownloadQueueError) -> [any QueuedOperation]
    {
        let result = await withCheckedContinuation { continuation in
            BlockingWorkers.shared.perform { [core] in
                continuation.resume(
                    returning: Result { () throws(DownloadQueueError) in try core.enqueue(requests) })
            }
        }
        return try result.get()
    }

    private func only<Made>(_ operations: [any QueuedOperation]) throws(DownloadQueueError) -> Made {
        guard let operation = operations.first as? Made else { throw .unsuitableRequest("It is of another kind.") }
        return operation
    }

    // MARK: Running

    /// Lets the entries run: those that have come back, and those that are enqueued later. Until then a program can look at
    /// what has come back, and cancel of it what it does not want.
    public func start() { core.start() }

    /// Whether the whole queue is paused. Stored, as the pauses of entries are.
    public var isPaused: Bool { core.state.withLock { $0.isPaused } }

    /// Pauses the whole queue, until ``resume()``, in a later process if need be. What runs is paused; nothing starts.
    public func pause() { core.setPaused(true) }

    /// Resumes the whole queue. Entries that were paused by themselves stay so.
    public func resume() { core.setPaused(false) }

    /// Pauses an entry. What has arrived of it stays.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)`` or ``DownloadQueueError/closed``.
    public func pause(_ id: UUID) throws(DownloadQueueError) { try core.setPaused(true, id) }

    /// Resumes an entry.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)`` or ``DownloadQueueError/closed``.
    public func resume(_ id: UUID) throws(DownloadQueueError) { try core.setPaused(false, id) }

    /// Removes an entry, whatever its state is: its operation is cancelled, and what it has in partial files and bodies is
    /// removed. A file that is in its place stays. For those that depend on it, it has failed.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)`` or ``DownloadQueueError/closed``.
    public func cancel(_ id: UUID) throws(DownloadQueueError) { try core.cancel(id) }

    /// Tries an entry again that has failed, or of which it is unknown whether it has arrived; at once one that waits for its
    /// next attempt; or lets one that is blocked run without the dependencies that have failed. A request that sends has the same `Idempotency-Key` as before.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)``, ``DownloadQueueError/cannotRetry(_:)``,
    ///   ``DownloadQueueError/bodyMissing(_:)`` or ``DownloadQueueError/closed``.
    public func retry(_ id: UUID) throws(DownloadQueueError) { try core.retry(id) }

    /// Sets which entry comes first of those that could start.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)`` or ``DownloadQueueError/closed``.
    public func setPriority(_ priority: Operation.QueuePriority, of id: UUID) throws(DownloadQueueError) {
        try core.setPriority(priority, id)
    }

    /// Removes the entries that have finished. Until then they are listed.
    public func removeFinished() { core.removeFinished() }

    // MARK: Closing

    /// Stops everything, and waits until others can open the directory. What runs is cancelled with
    /// ``DownloadQueueError/closed`` as the reason; its entry stays, and goes on when the queue is opened again, by this
    /// process or another.
    public func close() async {
        await withCheckedContinuation { continuation in core.close { continuation.resume() } }
    }

    /// Waits until all changes made so far are on the disk.
    ///
    /// - Throws: why they cannot be written. They are tried again with the next change.
    public func flush() async throws(DownloadQueueError) {
        let error = await withCheckedContinuation { continuation in
            core.writer.submit([]) { continuation.resume(returning: $0) }
        }
        if let error = error ?? core.writer.failure { throw error }
    }

    /// Why the last changes could not be written; nil as soon as all are.
    public var failure: DownloadQueueError? { core.writer.failure }
}

extension DownloadQueue: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Why a ``DownloadQueue`` could not be opened, or has refused something.
public enum DownloadQueueError: Error, Hashable, Sendable {
    /// Another queue, in this process or another one, has the directory open. The id of that process, if it is known.
    case inUse(URL, process: Int32?)
    /// The database is damaged. It was left as it is: move `queue.sqlite` away to begin with an empty queue.
    case damaged(String)
    /// The database is one of another program. It was left as it is.
    case foreign(String)
    /// The database was written by a newer version of this library. It was left as it is.
    case newerVersion(String)
    /// The directory or a file in it cannot be made or opened.
    case cannotOpen(String)
    /// The directory or a file in it may have been prepared by another user, or can be changed by one. It was left as it is;
    /// what is wrong, and what to do.
    case unsafe(String)
    /// The disk, or the quota, is full.
    case diskFull(String)
    /// The disk has failed in another way.
    case cannotWrite(String)
    /// The queue was closed.
    case closed
    /// No entry has this identifier: it was never enqueued, was cancelled, or has finished and was removed.
    case unknownEntry(UUID)
    /// There is an entry of this identifier already.
    case duplicate(UUID)
    /// A request depends on an entry that is neither in the queue nor enqueued together with it.
    case unknownDependency(UUID, of: UUID)
    /// Requests depend on each other in a circle, of which this is one.
    case dependencyCycle(UUID)
    /// The URL holds a secret, which would be stored: a user name or password, or a query item such as `access_token`. The
    /// URL is shown without it. See ``DownloadRequest/storesSecretsInURL``.
    case secretInURL(String)
    /// The request cannot be stored, and why.
    case unsuitableRequest(String)
    /// The file that is to be sent cannot be read, and why.
    case unreadableBody(URL, String)
    /// The stored body of an entry is gone, or has another length.
    case bodyMissing(UUID)
    /// A dependency of the entry has failed, or was cancelled. Why the entry has failed, under
    /// ``FailedDependencyPolicy/fail``.
    case dependencyFailed(UUID)
    /// The request was to have header fields with secrets, which are not stored, and the program has not set them again: by
    /// `prepare`, in the `configure` block, or by credentials. Their names. Nothing was sent.
    case missingSecrets([String])
    /// The entry is in a state in which it cannot be tried again.
    case cannotRetry(UUID)
}

extension DownloadQueueError: LocalizedError, CustomStringConvertible {
    /// What has happened, in a sentence.
    public var errorDescription: String? { description }

    /// What has happened, in a sentence.
    public var description: String {
        switch self {
        case .inUse(let url, let process):
            "The queue in \(url.path) is in use by \(process.map { "process \($0)" } ?? "another process")."
        case .damaged(let text): "The queue's database is damaged: \(text)"
        case .foreign(let text): "The queue's database is not a queue's: \(text)"
        case .newerVersion(let text): "The queue's database cannot be read: \(text)"
        case .cannotOpen(let text): "The queue cannot be opened: \(text)"
        case .unsafe(let text): "The queue cannot be trusted: \(text)"
        case .diskFull(let text): "The queue cannot be written, as the disk is full: \(text)"
        case .cannotWrite(let text): "The queue cannot be written: \(text)"
        case .closed: "The queue was closed."
        case .unknownEntry(let id): "The queue has no entry \(id)."
        case .duplicate(let id): "The queue has an entry \(id) already."
        case .unknownDependency(let id, let dependent):
            "The request \(dependent) depends on \(id), which is not in the queue."
        case .dependencyCycle(let id): "The request \(id) depends on itself, by way of others."
        case .secretInURL(let url): "The URL \(url) holds a secret, which would be stored."
        case .unsuitableRequest(let reason): "The request cannot be stored: \(reason)"
        case .unreadableBody(let file, let reason): "The file \(file.path) cannot be read: \(reason)"
        case .bodyMissing(let id): "The stored body of the entry \(id) is gone, or has another length."
        case .dependencyFailed: "A dependency has failed, or was cancelled."
        case .missingSecrets(let names):
            "The request lacks what was not stored of it: \(names.joined(separator: ", "))."
        case .cannotRetry(let id): "The entry \(id) has not failed."
        }
    }
}
