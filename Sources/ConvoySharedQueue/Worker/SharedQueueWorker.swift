import ConvoyOperations
import ConvoySupport
import Foundation

/// A worker that executes entries of a ``SharedQueue``. Any number of workers can run, in one or more processes and on
/// one or more machines.
///
/// ```swift
/// let worker = SharedQueueWorker(queue: queue, manager: manager) { operation, entry in
///  operation.credential = URLCredential(user: "ada", password: password, persistence: .forSession)
/// }
/// try await worker.run()                     // until stop() is called or its task is cancelled
/// ```
///
/// Each entry becomes an operation with the manager's settings, which runs in a queue of the worker. Retries follow
/// ``Settings/retryPolicy`` instead of the manager's retry policy, because another worker may make the next attempt.
///
/// If entries end quickly, a worker claims more of them in advance, so that it need not wait for the database between
/// two entries: as many as have ended in a tenth of a second, at most eight times as many as it runs concurrently, and
/// at most 400. It gives back those that have not begun within a second, for other workers. It holds a
/// lease on the claimed entries, and renews the lease three times in its duration. If the database cannot be reached,
/// the worker continues until a tenth of the duration is left, and then cancels its entries. Results available by then
/// are reported as soon as the database can be reached again.
public final class SharedQueueWorker: Sendable {
    /// Called with each operation created by the worker, before the operation starts, on a thread of the worker.
    /// Provides credentials, tokens and handlers, which are not stored. It must not block.
    public typealias Configure = @Sendable (_ operation: HTTPRequestOperation, _ entry: ClaimedEntry) -> Void

    /// The properties of a claimed entry.
    public struct ClaimedEntry: Sendable, Identifiable, Hashable {
        /// The identifier of the entry.
        public let id: UUID
        /// The tag of the request, if any.
        public let tag: String?
        /// The number of the attempt, from 1.
        public let attempt: Int
    }

    /// The settings of a worker.
    public struct Settings: Sendable {
        /// The maximum number of concurrent entries. The default is 8.
        public var maximumConcurrentJobs = 8
        /// The tags of the entries to execute; nil for all. An empty string selects entries without a tag.
        public var tags: [String]?
        /// The weights by which this worker distributes its jobs among the tags that have ready entries, so that many
        /// entries of one tag do not delay those of others. Tags that are not listed have the weight 1, and an empty string
        /// stands for entries without a tag. Within a tag, entries begin by priority and age. The default is nil: priority
        /// and age decide across all tags.
        public var tagWeights: [String: Double]?
        /// The duration of the worker's leases, in seconds, unless they are renewed: the time for which the entries of
        /// a killed worker wait. The default is 60, the minimum is 1.
        public var leaseDuration: TimeInterval = 60
        /// The policy for repeating failed attempts, by this worker or another. Its number of retries is not used,
        /// because entries have their own limit.
        public var retryPolicy = DownloadQueue.standardRetryPolicy
        /// The name in listings; by default the host and process of the worker.
        public var name: String
        /// The folders for response bodies, by the names used in requests.
        public var folders: [String: URL] = [:]
        /// The object storages for response bodies, by the names used in requests. Each closure uploads a body.
        public var objectStorages: [String: ObjectStorageUpload] = [:]
        /// Called with events that an operator may want to know, one at a time, on a queue of the worker. ``run()``
        /// returns after the last call.
        public var eventHandler: (@Sendable (Event) -> Void)?

        /// Creates the default settings.
        public init() { name = "\(ProcessInfo.processInfo.hostName)/\(ProcessInfo.processInfo.processIdentifier)" }
    }

    /// An event in the life of a worker.
    public enum Event: Sendable, Hashable {
        /// The worker can use the database.
        case connected
        /// The worker cannot use the database, for the given reason, and keeps trying.
        case disconnected(SharedQueueError)
        /// An entry has failed permanently in this worker. The reason contains no secrets.
        case failed(ClaimedEntry, reason: String?)
    }

    /// Uploads a body under a key, and returns the URL of the object.
    public typealias ObjectStorageUpload =
        @Sendable (_ body: Data, _ key: String, _ contentType: String?) async throws -> URL

    /// The statistics of a worker.
    public struct Statistics: Sendable, Hashable {
        /// The number of claimed entries.
        public internal(set) var claimed = 0
        /// The number of successful attempts.
        public internal(set) var succeeded = 0
        /// The number of failed attempts that will be repeated.
        public internal(set) var failedForNow = 0
        /// The number of attempts after which the entry has failed permanently.
        public internal(set) var failed = 0
        /// The number of entries returned because this worker could not send their requests: it lacks a secret, a folder
        /// or a storage, for example. These do not count as attempts.
        public internal(set) var returned = 0
        /// The number of attempts that were abandoned, because the lease was lost, the entry was cancelled or paused, the
        /// worker was stopped, or another worker could begin sooner.
        public internal(set) var abandoned = 0
        /// The number of running entries.
        public internal(set) var running = 0
        /// Whether the database can be used.
        public internal(set) var isConnected = false
        /// The reason why the database cannot be used; nil if it can, or has not been tried yet.
        public internal(set) var connectionError: SharedQueueError?
    }

    private let core: WorkerCore

    /// Creates a worker, which is idle until ``run()``.
    ///
    /// - Parameters:
    ///   - queue: The queue with the entries.
    ///   - manager: The manager that provides the settings and credentials of the operations.
    ///   - settings: The settings of the worker.
    ///   - configure: A closure that configures each operation.
    public init(
        queue: SharedQueue, manager: HTTPRequestOperationManager, settings: Settings = Settings(),
        configure: @escaping Configure = { _, _ in }
    ) {
        core = WorkerCore(queue, manager, settings, configure)
    }

    deinit { core.stop(.now) }

    /// The statistics so far.
    public var statistics: Statistics { core.statistics }

    /// Claims and executes entries until the worker is stopped. Cancelling the task calls ``stop(_:)`` with `.now`.
    ///
    /// - Throws: ``SharedQueueError`` if the database cannot be used. If it cannot be reached, the worker keeps
    ///   trying, even at the start.
    public func run() async throws(SharedQueueError) {
        let result: Result<Void, SharedQueueError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in core.run { continuation.resume(returning: $0) } }
        } onCancel: {
            core.stop(.now)
        }
        try result.get()
    }

    /// The way in which a worker stops.
    public enum Stop: Sendable, Comparable {
        /// The worker claims no more entries, and finishes the running ones.
        case drained
        /// The worker cancels the running entries and returns them to the queue, unless they must not be sent twice.
        case now
    }

    /// Stops the worker, after which ``run()`` returns. Can be called on any thread, and again with `.now`.
    public func stop(_ stop: Stop = .drained) { core.stop(stop) }
}
