import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import Foundation

/// A queue of downloads and requests that survives the process: entries that were waiting, paused or running are
/// restored when the queue is opened again. The counterpart of AFNetworking's archived operations, and of a background
/// session.
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
/// ### Guarantees
///
/// When `enqueue` returns, the entry is on the disk, and survives the end of the process or a system failure at any
/// time. Entries are restored in order, with their dependencies, priorities, tags, pauses and numbers of attempts. A
/// download resumes where it stopped, under the rules of `DownloadOperation`. A finished request is not sent again:
/// the queue records that the request is about to be sent before its first byte can be sent, and its result before its
/// operation reports completion. A request that was in progress when the process ended is sent again according to
/// ``OutboxRequest``.
///
/// ### Entries and operations
///
/// Each entry that has not ended has an operation, which runs in the manager's queue when its dependencies have
/// finished. The operation can be awaited, paused and cancelled like any other; pausing or cancelling it pauses or
/// removes the entry. An operation has the manager's settings, and the plain `HTTPResponseSerializer`. Everything else
/// is set by the `configure` block of the initializer, for new and restored entries alike: handlers, a different
/// serializer, and secrets, which are not stored.
///
/// ### Retries
///
/// If an entry fails in a way that its `RetryPolicy` considers temporary, the same operation retries it after a delay.
/// Its handlers run when it has succeeded or failed permanently. The time of the next attempt and the number of retries
/// are stored, so the next process waits for the remaining time and continues counting. An entry that has failed
/// permanently stays as ``State/failed`` until ``retry(_:)`` or ``cancel(_:)``. Entries that depend on it stay
/// ``State/blocked``, and run once it has succeeded.
///
/// ### Secrets
///
/// The values of `Authorization`, `Cookie`, `Proxy-Authorization` and other secret header fields are not stored. This
/// includes the fields in the manager's `sensitiveHeaders`, and those that contain a URL with a secret. The values are
/// sent only as long as the process lasts. In a later process, a request fails with
/// ``DownloadQueueError/missingSecrets(_:)`` before anything is sent, unless `configure` provides the values. A URL
/// with a secret is rejected. Bodies and tags are stored unchanged. All files have mode 0600.
///
/// ### Files
///
/// The directory contains the database `queue.sqlite` with its log, `queue.lock`, and the folder `bodies`. Only one
/// queue can have the directory open. Opening a second queue, in the same process or a different one, throws
/// ``DownloadQueueError/inUse(_:process:)``.
///
/// All members can be used on any thread. Only the initializer and `enqueue` wait for the disk. Other changes are
/// written shortly afterwards: see ``flush()``.
public final class DownloadQueue: Sendable {
    /// A closure called with each operation created by the queue before any of them starts, on the thread that
    /// enqueues, opens or retries.
    public typealias Configure = @Sendable (_ operation: HTTPRequestOperation, _ entry: Entry) -> Void

    let core: QueueCore

    /// Opens a queue. Nothing runs before ``start()``. Blocks on the disk.
    ///
    /// - Parameters:
    ///   - directory: The directory of the queue, created if it does not exist.
    ///   - manager: The manager, which provides the settings and credentials of the operations, and their queue.
    ///   - operationQueue: The queue in which the operations run; nil for the manager's.
    ///   - retryPolicy: The policy for failed entries; nil for the manager's, which usually does
    ///     not retry.
    ///   - configure: A closure that configures each operation, including those of restored entries.
    /// - Throws: ``DownloadQueueError``. A database that is damaged or does not belong to a queue is left unchanged.
    public init(
        directory: URL, manager: HTTPRequestOperationManager, operationQueue: OperationQueue? = nil,
        retryPolicy: RetryPolicy? = DownloadQueue.standardRetryPolicy, configure: @escaping Configure = { _, _ in }
    ) throws(DownloadQueueError) {
        core = try QueueCore.open(directory, manager, operationQueue, retryPolicy, configure)
    }

    /// A policy for requests that are not urgent. It allows at most 30 consecutive retries without progress, with
    /// delays of at most 2, 4, 8 seconds and so on up to an hour, which end after half a day on average. In addition,
    /// it retries as soon as a network becomes available.
    public static var standardRetryPolicy: RetryPolicy {
        var policy = RetryPolicy(maximumRetryCount: 30)
        policy.initialDelay = 2
        policy.maximumDelay = 3600
        policy.retriesWhenNetworkReturns = true
        return policy
    }

    /// Closes the queue without waiting.
    deinit { core.close() }

    /// The directory of the queue.
    public var directory: URL { core.directory }

    // MARK: Enqueuing

    /// Enqueues a download. When this returns, the entry is on the disk.
    ///
    /// - Returns: The configured operation.
    /// - Throws: ``DownloadQueueError``, in which case nothing was enqueued.
    @available(*, noasync, message: "use the asynchronous enqueue(_:), which blocks no thread")
    @discardableResult
    public func enqueue(_ request: DownloadRequest) throws(DownloadQueueError) -> DownloadOperation {
        try only(core.enqueue([request]))
    }

    /// Enqueues a request to send. When this returns, the entry and its body are on the disk.
    ///
    /// - Returns: The configured operation.
    /// - Throws: ``DownloadQueueError``, in which case nothing was enqueued.
    @available(*, noasync, message: "use the asynchronous enqueue(_:), which blocks no thread")
    @discardableResult
    public func enqueue(_ request: OutboxRequest) throws(DownloadQueueError) -> HTTPRequestOperation {
        try only(core.enqueue([request]))
    }

    /// Enqueues all of the requests, in the given order, or none of them. Enqueuing thousands of requests takes little
    /// more time than enqueuing one. The requests may depend on each other.
    ///
    /// - Returns: Their operations, in the same order.
    /// - Throws: ``DownloadQueueError``, in which case nothing was enqueued.
    @available(*, noasync, message: "use the asynchronous enqueue(_:), which blocks no thread")
    @discardableResult
    public func enqueue(_ requests: [any DurableRequest]) throws(DownloadQueueError) -> [HTTPRequestOperation] {
        try core.enqueue(requests)
    }

    /// Enqueues a download. When this returns, the entry is on the disk. Otherwise, this method behaves like the
    /// blocking version.
    @discardableResult
    public func enqueue(_ request: DownloadRequest) async throws(DownloadQueueError) -> DownloadOperation {
        try only(await enqueueOnWorker([request]))
    }

    /// Enqueues a request to send. When this returns, the entry is on the disk. Otherwise, this method behaves like the
    /// blocking version.
    @discardableResult
    public func enqueue(_ request: OutboxRequest) async throws(DownloadQueueError) -> HTTPRequestOperation {
        try only(await enqueueOnWorker([request]))
    }

    /// Enqueues all of the requests, in the given order, or none of them. Otherwise, this method behaves like the
    /// blocking version.
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
        guard let operation = operations.first as? Made else {
            throw .unsuitableRequest("The operation has an unexpected type.")
        }
        return operation
    }

    // MARK: Running

    /// Allows entries to run, both restored and new ones. Before this call, a program can inspect restored entries and
    /// cancel unwanted ones.
    public func start() { core.start() }

    /// Whether the whole queue is paused. This pause is stored, as are the pauses of entries.
    public var isPaused: Bool { core.state.withLock { $0.isPaused } }

    /// Pauses the whole queue until ``resume()`` is called, by this process or a later one. Running entries are paused,
    /// and none starts.
    public func pause() { core.setPaused(true) }

    /// Resumes the whole queue, except individually paused entries.
    public func resume() { core.setPaused(false) }

    /// Pauses an entry. The received bytes are kept.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)`` or ``DownloadQueueError/closed``.
    public func pause(_ id: UUID) throws(DownloadQueueError) { try core.setPaused(true, id) }

    /// Resumes an entry.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)`` or ``DownloadQueueError/closed``.
    public func resume(_ id: UUID) throws(DownloadQueueError) { try core.setPaused(false, id) }

    /// Removes an entry in any state: cancels its operation, and removes its partial file and body. A completed file is
    /// kept. Entries that depend on it treat it as failed.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)`` or ``DownloadQueueError/closed``.
    public func cancel(_ id: UUID) throws(DownloadQueueError) { try core.cancel(id) }

    /// Retries an entry that has failed or whose outcome is unknown. An entry that is waiting for its next attempt
    /// starts immediately, and a blocked entry runs without its failed dependencies. A request to send keeps its
    /// `Idempotency-Key`.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)``, ``DownloadQueueError/cannotRetry(_:)``,
    ///   ``DownloadQueueError/bodyMissing(_:)`` or ``DownloadQueueError/closed``.
    public func retry(_ id: UUID) throws(DownloadQueueError) { try core.retry(id) }

    /// Sets the priority of an entry among those that are ready to start.
    ///
    /// - Throws: ``DownloadQueueError/unknownEntry(_:)`` or ``DownloadQueueError/closed``.
    public func setPriority(_ priority: Operation.QueuePriority, of id: UUID) throws(DownloadQueueError) {
        try core.setPriority(priority, id)
    }

    /// Removes finished entries, which remain listed until this call.
    public func removeFinished() { core.removeFinished() }

    // MARK: Closing

    /// Stops all operations, and waits until the directory can be opened again. Running operations are cancelled with
    /// ``DownloadQueueError/closed`` as the reason. Their entries are kept, and continue when the queue is opened again
    /// by this process or another.
    public func close() async {
        await withCheckedContinuation { continuation in core.close { continuation.resume() } }
    }

    /// Waits until all changes made so far are on the disk.
    ///
    /// - Throws: The error if the changes cannot be written. Writing is retried with the next change.
    public func flush() async throws(DownloadQueueError) {
        let error = await withCheckedContinuation { continuation in
            core.writer.submit([]) { continuation.resume(returning: $0) }
        }
        if let error = error ?? core.writer.failure { throw error }
    }

    /// The error of the last failed write; nil once all changes are written.
    public var failure: DownloadQueueError? { core.writer.failure }
}

extension DownloadQueue: OpaqueReflectable {}
