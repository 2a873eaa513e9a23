import ConvoySupport
import Foundation
import Synchronization

/// An operation queue whose cost per operation does not grow with the number of waiting operations.
///
/// It accepts any `Operation`, with dependencies across queues of any class, and conforms to the contract of
/// Foundation's `OperationQueue`. Adding an operation, making it ready and finishing it take constant time, whereas
/// Foundation's queue checks every waiting operation each time. In addition, it supports limits per host, start rates,
/// priority aging, a bounded length, and pausing all operations.
///
/// ### Order
/// Among ready operations, those with the higher `queuePriority` come first. Among equals, the host with the fewest
/// running operations comes first, then the host that was served longest ago. Within a host, and among operations
/// without a host, the order is first in, first out.
///
/// ### Slots
/// At most ``maxConcurrentOperationCount`` operations hold a slot at any moment. A paused operation releases its slot,
/// and waits for a slot again when it is resumed.
///
/// ### Cancellation
/// A ``ScheduledOperation`` (a request, a batch, or an added block) that is cancelled before its start, or after it has
/// released its slot, finishes immediately: it needs no slot, and no limit, gate, barrier or suspension holds it back.
/// An operation of another class also finishes immediately if it is waiting for dependencies when it is cancelled, if
/// it was cancelled before it was added, or if ``cancelAllOperations()`` cancels it. If its own `cancel()` is called
/// while it is waiting only for a slot, it finishes when it is granted one, because Foundation does not report the
/// cancellation.
///
/// ### Threads
/// All members can be used from any thread. Request operations start inline, on the thread that made them ready. Other
/// operations start on ``underlyingQueue``, or on the queue's own concurrent dispatch queue. No lock is held while an
/// operation's code runs.
///
/// ### Cost
/// A ``ScheduledOperation`` costs 1 to 2 microseconds in total, regardless of the number of operations. An operation of
/// another class costs about 7 microseconds, plus about 15 microseconds and 2 KB if it is not ready when it is added.
///
/// ### Lifetime
/// Operations keep their queue alive until they have finished, and the queue keeps its operations alive. If a suspended
/// queue with operations is released, both stay in memory.
///
/// ### Differences from `OperationQueue`
/// - `operations` and `operationCount` cannot be overridden on Linux, and reflect only the backing Foundation queue.
///   Use ``queuedOperations`` and ``queuedOperationCount``.
/// - An operation that is already in the queue or has finished is ignored when it is added. Adding an operation that is
///   executing or is in another queue is a programming error, as in Foundation.
/// - Changing `queuePriority` after adding takes effect immediately for a ``ScheduledOperation``, and for other
///   operations only before they are ready.
/// - `OperationQueue.current` is the queue for operations that run on its dispatch queue. For an operation of another
///   class that had to wait for its dependencies, it is a proxy that forwards to the queue. It is not set for
///   operations that start inline.
/// - When an operation of another class has finished, its `dependencies` are emptied if it was cancelled or has at most
///   four. This way, releasing a long chain does not recurse, and a dependency that outlives a cancelled operation does
///   not access its memory.
open class RequestOperationQueue: OperationQueue, @unchecked Sendable {
    let scheduler: Scheduler

    /// Creates an empty queue without limits.
    public override init() {
        scheduler = Scheduler(clock: MonotonicClock())
        super.init()
    }

    /// Creates an empty queue with the given clock.
    package init(clock: any SchedulingClock) {
        scheduler = Scheduler(clock: clock)
        super.init()
    }

    // MARK: Adding

    /// Adds an operation, which is started when it is ready and a slot is free.
    ///
    /// If the queue is full (``maximumLength``), ``overflowPolicy`` decides: the operation is cancelled with
    /// ``RequestOperationQueueError/refused(maximumLength:)`` and finishes immediately; or the calling thread blocks
    /// until the queue has room; or the oldest waiting operation is cancelled.
    override open func addOperation(_ operation: Operation) {
        do {
            try enqueue(operation)
        } catch {
            // The refused operation is added outside the limits, so that it finishes as cancelled.
            if let operation = operation as? ScheduledOperation {
                operation.cancel(because: error)
            } else {
                operation.cancel()
            }
            if !operation.isFinished { scheduler.insert(operation, flags: .exempt, into: self) }
        }
    }

    /// Adds operations, and optionally waits for all of them to finish.
    ///
    /// Do not wait on a thread that one of the operations needs in order to run.
    override open func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
        for operation in operations { addOperation(operation) }
        guard wait else { return }
        for operation in operations { operation.waitUntilFinished() }
    }

    /// Adds a block, which runs on the queue's dispatch queue.
    override open func addOperation(_ block: @escaping @Sendable () -> Void) {
        let operation = ScheduledBlockOperation(block)
        operation.qualityOfService = qualityOfService
        addOperation(operation)
    }

    /// Runs a block after all operations in the queue have finished and before any operation that is added later
    /// starts. The block runs on the queue's dispatch queue, or not at all if ``cancelAllOperations()`` is called
    /// first.
    ///
    /// The block also waits for paused operations, and while the queue is suspended.
    override open func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
        scheduler.insertBarrier(ScheduledBlockOperation(barrier), into: self)
    }

    // MARK: Limits

    /// The maximum number of operations that hold a slot concurrently. `defaultMaxConcurrentOperationCount` (-1), the
    /// default, means no limit; with 0, no operations start. It can be changed at any time; running operations
    /// continue.
    ///
    /// - Precondition: At least -1.
    override open var maxConcurrentOperationCount: Int {
        get { state.withLock { $0.limit == .max ? OperationQueue.defaultMaxConcurrentOperationCount : $0.limit } }
        set {
            precondition(newValue >= -1, "Invalid maximum operation count \(newValue): it must not be negative.")
            scheduler.isOneAtATime = newValue == 1
            scheduler.change { $0.limit = newValue < 0 ? .max : newValue }
        }
    }

    /// The maximum number of operations per host that hold a slot concurrently. No limit by default.
    ///
    /// An operation that follows a redirect to another host counts towards that host from then on. If that host has no
    /// free slot, or its gate is closed, the transfer waits without a timeout, ahead of all operations that have not
    /// started. It keeps its slot of the queue, and has no host slot while it waits. A retry or a resumption begins at
    /// the host of the operation's own request. (A transfer shared by identical requests, see
    /// `coalescesIdenticalRequests`, counts towards the first host.)
    ///
    /// - Precondition: At least 1.
    public final var maxConcurrentOperationCountPerHost: Int {
        get { state.withLock { $0.lanes.limitPerHost } }
        set {
            precondition(newValue >= 1, "Invalid maximum \(newValue): allow at least one operation per host.")
            scheduler.change { $0.lanes.limitPerHost = newValue }
        }
    }

    /// The time after which a waiting operation rises to the next higher priority, in seconds, so that no operation
    /// waits forever behind more urgent ones. 30 by default; nil or NaN disables aging.
    public final var priorityAgingInterval: TimeInterval? {
        get { state.withLock { $0.lanes.agingInterval }.map { Double($0) / 1e9 } }
        set {
            let interval = newValue.flatMap { $0.isNaN ? nil : max(1, Nanoseconds.clamping(seconds: $0)) }
            state.withLock { $0.lanes.agingInterval = interval }
        }
    }

    /// Whether the queue is suspended and starts no operations. Running operations continue.
    override open var isSuspended: Bool {
        get { state.withLock { $0.isSuspended } }
        set { scheduler.change { $0.isSuspended = newValue } }
    }

    /// The dispatch queue on which operations start, unless they start inline; nil, the default, for the queue's own
    /// dispatch queue.
    ///
    /// - Precondition: The queue is empty when this is set.
    override open var underlyingQueue: DispatchQueue? {
        get { super.underlyingQueue }
        set {
            precondition(state.withLock { $0.isEmpty }, "The underlying queue can be set only while the queue is empty.")
            // The operations of the backing queue may be about to end, and Foundation counts them.
            super.waitUntilAllOperationsAreFinished()
            super.underlyingQueue = newValue
        }
    }

    // MARK: All operations

    /// The operations in the queue that have not finished, in the order in which they were added.
    ///
    /// Reading this property takes time proportional to the number of operations. The operations may have finished by
    /// the time the caller uses them.
    public final var queuedOperations: [Operation] {
        scheduler.members.compactMap { $0.flags.contains(.barrier) ? nil : $0.operation?.represented }
    }

    /// The number of operations in the queue that have not finished. Reading this property takes constant time.
    public final var queuedOperationCount: Int { state.withLock { $0.count } }

    /// Cancels all operations and all barriers. Operations that have not been started finish immediately; running
    /// operations finish when they have stopped.
    override open func cancelAllOperations() {
        // Cancel the newest first, so that the end of a dependency does not make its dependents ready.
        Scheduler.cancel(scheduler.members.reversed().compactMap(\.operation), in: [scheduler])
    }

    /// Blocks the calling thread until the queue is empty, including operations added in the meantime.
    override open func waitUntilAllOperationsAreFinished() {
        let semaphore: DispatchSemaphore? = state.withLock { state in
            guard !state.isEmpty else { return nil }
            let semaphore = DispatchSemaphore(value: 0)
            state.idleWaiters.append(semaphore)
            return semaphore
        }
        semaphore?.wait()
    }

    /// The progress of the queue, which counts finished operations, one unit each, once its `totalUnitCount` is set.
    ///
    /// `Progress` is not thread-safe on Linux. The queue serializes its own updates; add the progress to a tree only if
    /// nothing else updates that tree concurrently.
    override open var progress: Progress { scheduler.progress }

    /// A summary for debugging: the number of operations that run and wait, what the waiting ones wait for (see
    /// ``WaitReason``), the hosts of the operations, and the closed gates. It does not change the operations.
    ///
    /// Reading this property takes time proportional to the number of operations.
    override open var description: String { summary }

    // MARK: Internal members

    var state: ContendedLock<QueueState> { scheduler.state }

    /// Adds an operation to the backing Foundation queue, which starts it immediately.
    final func startInFoundation(_ operation: Operation) { super.addOperation(operation) }
}

/// An operation that a queue can pause.
///
/// Both methods are called on any thread, in any state of the operation, and must not block. An operation that pauses
/// while it holds a slot of its queue calls ``ScheduledOperation/slotDidFree()``; one that resumes becomes ready again
/// and calls ``ScheduledOperation/readinessDidChange()``.
package protocol PausableOperation: AnyObject {
    func pause()
    func resume()
}

/// Methods that pause and resume all operations.
extension RequestOperationQueue {
    /// Pauses all operations in the queue that can be paused. Operations added later are not paused.
    public final func pauseAll() {
        for operation in queuedOperations { (operation as? any PausableOperation)?.pause() }
    }

    /// Resumes all operations in the queue that are paused.
    public final func resumeAll() {
        for operation in queuedOperations { (operation as? any PausableOperation)?.resume() }
    }
}

/// Limits on the rate at which operations start.
///
/// Each start of an operation with a host counts: the first start, a start after a pause, and a retry after a delay. (A
/// redirect, the answer to a challenge, and a request that is immediately sent again because nothing of it was sent are
/// part of the same start.) Blocks, batches and operations of other classes are neither counted nor held back.
///
/// An operation held back by a rate waits as if for a slot, and in the same order: a higher priority comes first,
/// operations whose host may not start yet are skipped, and a cancelled operation finishes immediately.
extension RequestOperationQueue {
    /// The rate at which operations with a host may start, across all hosts; nil, the default, for no limit.
    ///
    /// It can be changed at any time. A higher rate also shortens the current wait; a lower one applies from the next
    /// start.
    public final var maximumStartRate: StartRate? {
        get { state.withLock { $0.lanes.rates.overall?.rate } }
        set { scheduler.change { $0.lanes.setStartRate(newValue) } }
    }

    /// The rate at which operations may start per host, identified by name and port; nil, the default, for no limit.
    /// This limit works like ``maximumStartRate``, and both rates apply.
    public final var maximumStartRatePerHost: StartRate? {
        get { state.withLock { $0.lanes.rates.perHost?.rate } }
        set { scheduler.change { $0.lanes.setStartRatePerHost(newValue) } }
    }
}

/// The gates of the hosts.
///
/// When a server answers 429 or 503 to a request that has a ``RetryPolicy``, or refuses its connection, the gate of its
/// host closes. Requests that have a policy and could only fail in the same way, and requests that are redirected to
/// the host, wait until the gate opens. All other requests pass the gate. After a redirect, the gate of the host that
/// answered closes.
///
/// After a refused connection, the gate lets requests through one at a time, until the host has answered. A host that
/// has refused connections for as long as all retries of the policy may take is considered unavailable: its gate opens,
/// and each request fails individually.
extension RequestOperationQueue {
    /// A host whose gate is closed, and the time when the gate opens.
    public struct ClosedGate: Sendable, Hashable {
        /// The host's name in lower case, with its port unless it is the scheme's default: `example.com`,
        /// `127.0.0.1:8080`, `[::1]:8080`.
        public let host: String
        /// The time when the gate opens, unless it is closed for longer or opened earlier in the meantime. The time is
        /// in the past if the gate lets requests through one at a time.
        public let opensAt: Date
    }

    /// The gates that are currently closed, sorted by host name.
    ///
    /// A gate stays closed for as long as the response requested in `Retry-After`, but at most for the policy's
    /// ``RetryPolicy/maximumGateDuration``.
    public final var closedGates: [ClosedGate] {
        state.withLock { $0.lanes.closedGates }
            .map { ClosedGate(host: $0.host, opensAt: scheduler.clock.date(of: $0.deadline)) }
            .sorted { $0.host < $1.host }
    }

    /// Opens the gate of a host early. Operations that wait at the gate can start immediately; an operation that waits
    /// for its own retry keeps waiting.
    ///
    /// - Parameter host: A name as in ``closedGates``.
    /// - Returns: Whether the gate was closed.
    @discardableResult
    public final func openGate(forHost host: String) -> Bool {
        var wasClosed = false
        scheduler.change { wasClosed = $0.lanes.openGate(of: host.lowercased()) }
        return wasClosed
    }

    /// Opens all gates early, like ``openGate(forHost:)``.
    public final func openAllGates() {
        scheduler.change { $0.lanes.openAllGates() }
    }
}

/// The queues created by the library, for managers and for awaited batches.
extension RequestOperationQueue {
    static let defaultCount = 256
    static let defaultCountPerHost = 64

    /// Creates a queue with the default limits, explained in `HTTPRequestOperationManager`.
    static func withDefaultLimits(named name: String) -> RequestOperationQueue {
        let queue = RequestOperationQueue()
        queue.name = name
        queue.maxConcurrentOperationCount = defaultCount
        queue.maxConcurrentOperationCountPerHost = defaultCountPerHost
        return queue
    }
}

extension OperationQueue {
    /// Adds an operation, unless it has finished, is in another queue or is awaited outside a queue. Foundation's queue
    /// would trap in these cases.
    final func addUnlessTaken(_ operation: Operation) {
        guard !operation.isFinished else { return }
        if let scheduled = operation as? ScheduledOperation {
            // A `RequestOperationQueue` ignores operations of other queues.
            guard self is RequestOperationQueue ? !scheduled.has(.startsWhenReady) : scheduled.claim() else { return }
        }
        addOperation(operation)
    }
}

/// The reason why a ``RequestOperationQueue`` refused or cancelled an operation.
public enum RequestOperationQueueError: Error, Hashable, Sendable {
    /// The queue was full, and its policy is ``RequestOperationQueue/OverflowPolicy/refuse``.
    case refused(maximumLength: Int)
    /// The queue was full when another operation was added, and this operation was the oldest that had not been
    /// started.
    case dropped(maximumLength: Int)
    /// The operation is one of `count` operations that wait for each other in a dependency cycle. With a count of 1, it
    /// depends on itself.
    case dependencyCycle(count: Int)
}

extension RequestOperationQueueError: SelfDescribingError {
    /// A description of the error.
    public var description: String {
        switch self {
        case .refused(let length): "The queue is full: at most \(length) operations can wait."
        case .dropped(let length): "The operation was dropped for a newer one: at most \(length) operations can wait."
        case .dependencyCycle(count: 1): "The operation depends on itself."
        case .dependencyCycle(let count): "\(count) operations wait for each other in a dependency cycle."
        }
    }
}

/// The progress of a queue: one unit for each operation that finishes while a total is set.
final class QueueProgress: Progress, @unchecked Sendable {
    private let isReporting = Atomic<Bool>(false)
    /// The number of operations counted. `Progress` is not thread-safe, so it is updated under this lock.
    private let counted = Locked(0)

    init() {
        super.init(parent: nil, userInfo: nil)
    }

    override var totalUnitCount: Int64 {
        get { super.totalUnitCount }
        set {
            super.totalUnitCount = newValue
            isReporting.store(newValue > 0, ordering: .releasing)
        }
    }

    func countOne() {
        guard isReporting.load(ordering: .acquiring) else { return }
        counted.withLock { counted in
            counted += 1
            completedUnitCount += 1
        }
    }
}
