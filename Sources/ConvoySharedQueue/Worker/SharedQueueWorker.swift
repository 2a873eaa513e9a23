import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import Foundation

/// Carries out entries of a ``SharedQueue``. Several processes, and several machines, may each run one or more.
///
/// ```swift
/// let worker = SharedQueueWorker(queue: queue, manager: manager) { operation, entry in
///     operation.credential = URLCredential(user: "ada", password: password, persistence: .forSession)
/// }
/// try await worker.run()                     // until stop() was called, or its task is cancelled
/// ```
///
/// An entry becomes an operation with the manager's settings, which runs in a queue of the worker's. The manager's retry
/// policy is not used: each attempt may be made by another worker, when ``Settings/retryPolicy`` says so.
///
/// A worker claims up to as much again as it carries out at once, so that it does not wait for the database between two
/// entries. It holds a lease on what it has claimed, and renews it three times in its duration. If it cannot, because the
/// database cannot be reached, it goes on with what it has until a tenth of the duration is left, then cancels it. What has
/// ended by then is reported as soon as the database can be reached again.
public final class SharedQueueWorker: Sendable {
    /// Called with each operation that the worker has made, before it is started, on a thread of the worker's. It supplies
    /// what is not stored: credentials, tokens, handlers. It must not block.
    public typealias Configure = @Sendable (_ operation: HTTPRequestOperation, _ entry: ClaimedEntry) -> Void

    /// What a worker knows of an entry that it has claimed.
    public struct ClaimedEntry: Sendable, Identifiable, Hashable {
        /// The name of the entry.
        public let id: UUID
        /// The tag that the request was given; nil for none.
        public let tag: String?
        /// The number of the attempt, from 1.
        public let attempt: Int
    }

    /// What a worker has and does.
    public struct Settings: Sendable {
        /// How many entries are carried out at once. 8 by default.
        public var maximumConcurrentJobs = 8
        /// Only entries with these tags; nil for all. The empty text stands for entries without a tag.
        public var tags: [String]?
        /// For how long its leases last, in seconds, unless they are renewed: how long what a killed worker had waits. 60 by
        /// default, at least 1.
        public var leaseDuration: TimeInterval = 60
        /// When a failed attempt is repeated, by this worker or another one. Its count of retries is not used: entries have
        /// one of their own.
        public var retryPolicy = DownloadQueue.standardRetryPolicy
        /// How it is listed; by default its machine and process.
        public var name: String
        /// The folders in which bodies of responses become files, by the names that requests say.
        public var folders: [String: URL] = [:]
        /// Where bodies of responses become objects, by the names that requests say: each uploads a body.
        public var objectStorages: [String: ObjectStorageUpload] = [:]

        /// The settings that are given above.
        public init() { name = "\(ProcessInfo.processInfo.hostName)/\(ProcessInfo.processInfo.processIdentifier)" }
    }

    /// Uploads a body under a key, and returns the URL of the object.
    public typealias ObjectStorageUpload =
        @Sendable (_ body: Data, _ key: String, _ contentType: String?) async throws -> URL

    /// What a worker has done so far.
    public struct Statistics: Sendable, Hashable {
        /// Entries that were claimed.
        public internal(set) var claimed = 0
        /// Attempts that have succeeded.
        public internal(set) var succeeded = 0
        /// Attempts that are to be repeated.
        public internal(set) var failedForNow = 0
        /// Attempts after which the entry has failed for good.
        public internal(set) var failed = 0
        /// Attempts that were given up, as the lease was lost or the worker was stopped.
        public internal(set) var abandoned = 0
        /// Entries that are under way now.
        public internal(set) var running = 0
        /// Whether the database can be reached.
        public internal(set) var isConnected = false
    }

    private let core: WorkerCore

    /// A worker, which does nothing before ``run()``.
    ///
    /// - Parameters:
    ///   - queue: whose entries it carries out.
    ///   - manager: whose settings and credentials the operations have.
    ///   - settings: what it has and does.
    ///   - configure: changes each operation that is made.
    public init(
        queue: SharedQueue, manager: HTTPRequestOperationManager, settings: Settings = Settings(),
        configure: @escaping Configure = { _, _ in }
    ) {
        core = WorkerCore(queue, manager, settings, configure)
    }

    deinit { core.stop(.now) }

    /// What it has done so far.
    public var statistics: Statistics { core.statistics }

    /// Claims and carries out entries until it was stopped. Cancelling the task stops it ``stop(_:)`` `.now`.
    ///
    /// - Throws: ``SharedQueueError`` if the database cannot be used at all. One that cannot be reached is tried again, without
    ///   an end, also at the start.
    public func run() async throws(SharedQueueError) {
        let result: Result<Void, SharedQueueError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in core.run { continuation.resume(returning: $0) } }
        } onCancel: {
            core.stop(.now)
        }
        try result.get()
    }

    /// How a worker stops.
    public enum Stop: Int, Sendable, Comparable {
        /// It claims nothing any more, and finishes what is under way.
        case drained
        /// What is under way is cancelled, and given back, unless it must not be sent twice.
        case now

        /// `.drained` comes before `.now`, which stops more.
        public static func < (one: Stop, other: Stop) -> Bool { one.rawValue < other.rawValue }
    }

    /// Stops the worker; ``run()`` returns when that is done. Can be called from any thread, and again with `.now`.
    public func stop(_ stop: Stop = .drained) { core.stop(stop) }
}
