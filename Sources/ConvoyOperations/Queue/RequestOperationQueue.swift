import ConvoySupport
import Foundation
import Synchronization

/// An operation queue whose cost does not grow with the operations that wait in it.
///
/// It takes any `Operation`, Convoy's or not, with dependencies across queues of any class, and keeps
/// the contract of Foundation's `OperationQueue`. Adding an operation, its becoming ready and its
/// finishing take constant time, where Foundation's queue looks at every waiting operation each time.
/// Beyond that contract it has limits per host, aging, a bounded length, and pausing of everything.
///
/// ### Order
/// Among ready operations the more urgent `queuePriority` comes first; within it the host with the
/// fewest running operations, then the host that was served longest ago; within a host (and for
/// operations without one) first in, first out.
///
/// ### Slots
/// At every moment at most ``maxConcurrentOperationCount`` operations hold a slot. A paused operation
/// gives its slot back, and a resumed one waits for a slot again.
///
/// ### Cancelling
/// A ``ScheduledOperation`` (a request, a batch, a block that was added) that is cancelled before its start, or after
/// it gave its slot back, finishes at once: it needs no slot, and no limit, gate, barrier or suspension holds it back.
/// An operation of another class finishes at once too if it waits for dependencies when it is cancelled, if it was
/// cancelled before it was added, or by ``cancelAllOperations()``. Cancelled by itself while it lacks only a slot, it
/// finishes when it gets one: Foundation tells nobody.
///
/// ### Threads
/// All members can be used from any thread. Request operations start in line, on the thread that made
/// them ready; others start on ``underlyingQueue``, or on a concurrent dispatch queue of the queue's own.
/// No lock is held while code of an operation runs.
///
/// ### Cost
/// A ``ScheduledOperation`` costs 1 to 2 microseconds in all, however many there are. An operation of another
/// class costs about 7, and about 15 and 2 KB more if it is not ready when it is added.
///
/// ### Lifetime
/// Operations keep their queue alive until they have finished, and the queue keeps them. A queue that is
/// let go of while it is suspended stays in memory with its operations.
///
/// ### Differences from `OperationQueue`
/// - `operations` and `operationCount` cannot be overridden on Linux, and show Foundation's half of the
///   queue only. Use ``queuedOperations`` and ``queuedOperationCount``.
/// - An operation that is in the queue already, or that has finished, is ignored when it is added.
///   Adding one that executes, or that is in another queue, is a programming error, as in Foundation.
/// - A change of `queuePriority` after adding is seen at once for a ``ScheduledOperation``; for another
///   operation it counts if it is made before the operation is ready.
/// - `OperationQueue.current` is the queue for operations that run on its dispatch queue; it is a
///   stand-in that passes everything on for a foreign operation that had to wait for its dependencies;
///   it is not set for operations that start in line.
/// - When a foreign operation has finished, its `dependencies` are emptied if it was cancelled or has at
///   most four: so releasing a long chain does not recurse, and a dependency that outlives a cancelled
///   operation does not touch it.
open class RequestOperationQueue: OperationQueue, FoundationBackedQueue, @unchecked Sendable {
    let scheduler: Scheduler
    let isBounded = Atomic<Bool>(false)
    let overflow = Locked(OverflowPolicy.refuse)

    /// Makes an empty queue without limits.
    public override init() {
        scheduler = Scheduler(clock: MonotonicClock())
        super.init()
    }

    /// Makes an empty queue with another clock.
    package init(clock: any SchedulingClock) {
        scheduler = Scheduler(clock: clock)
        super.init()
    }

    deinit {
        // An operation that somebody keeps refers to the scheduler as long as it lives. The tables need not live as long.
        scheduler.state.withLock { $0.releaseTables() }
    }

    // MARK: Adding

    /// Adds an operation, which is started when it is ready and there is a slot.
    ///
    /// If the queue is full (``maximumLength``), the policy decides: the operation is cancelled with
    /// ``RequestOperationQueueError/refused(maximumLength:)`` and finishes at once; or the calling
    /// thread is blocked until there is a place; or the oldest operation that waits is cancelled.
    override open func addOperation(_ operation: Operation) {
        guard !operation.isFinished else { return }
        switch admit(operation) {
        case .admitted(let flags): scheduler.insert(operation, flags: flags, into: self)
        case .refused(let error): insertCancelled(operation, because: error)
        }
    }

    /// Adds operations, and waits for all of them to finish if asked.
    ///
    /// Do not wait on a thread on which one of them would have to run.
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

    /// Runs a block after all operations that are in the queue have finished, and before any that is
    /// added later starts. It runs on the queue's dispatch queue, and not at all if
    /// ``cancelAllOperations()`` is called first.
    ///
    /// It waits for paused operations too, and while the queue is suspended.
    override open func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
        scheduler.insertBarrier(ScheduledBlockOperation(barrier), into: self)
    }

    // MARK: Limits

    /// How many operations may hold a slot at a time; `defaultMaxConcurrentOperationCount` (-1), the
    /// default, for no limit, and 0 for none at all. Can be changed at any time; operations that run go on.
    ///
    /// - Precondition: at least -1.
    override open var maxConcurrentOperationCount: Int {
        get { state.withLock { $0.limit == .max ? OperationQueue.defaultMaxConcurrentOperationCount : $0.limit } }
        set {
            precondition(newValue >= -1, "the count (\(newValue)) cannot be negative")
            scheduler.isOneAtATime = newValue == 1
            scheduler.change { $0.limit = newValue < 0 ? .max : newValue }
        }
    }

    /// How many operations of one host may hold a slot at a time. No limit by default.
    ///
    /// - Precondition: at least 1.
    public final var maxConcurrentOperationCountPerHost: Int {
        get { state.withLock { $0.lanes.limitPerHost } }
        set {
            precondition(newValue >= 1, "a host needs at least one slot")
            scheduler.change { $0.lanes.limitPerHost = newValue }
        }
    }

    /// After how many seconds a waiting operation rises to the next higher priority, so that none
    /// waits for ever while more urgent ones keep coming. 30 by default; nil, or no number, for never.
    public final var priorityAgingInterval: TimeInterval? {
        get { scheduler.aging.map { Double($0) / 1e9 } }
        set { scheduler.aging = newValue.flatMap { $0.isNaN ? nil : max(1, Nanoseconds.clamping(seconds: $0)) } }
    }

    /// Whether operations stay where they are instead of being started. Running ones go on.
    override open var isSuspended: Bool {
        get { state.withLock { $0.isSuspended } }
        set { scheduler.change { $0.isSuspended = newValue } }
    }

    /// The dispatch queue on which operations start that do not start in line; nil, the default, for one
    /// of the queue's own.
    ///
    /// - Precondition: the queue is empty when it is set.
    override open var underlyingQueue: DispatchQueue? {
        get { super.underlyingQueue }
        set {
            precondition(state.withLock { $0.isEmpty }, "the queue must be empty when its underlying queue is set")
            // Workers with nothing left to do may be on their way out, and Foundation counts them.
            super.waitUntilAllOperationsAreFinished()
            super.underlyingQueue = newValue
        }
    }

    // MARK: All of them

    /// The operations in the queue that have not finished, in the order in which they were added.
    ///
    /// Takes time in proportion to their number. They may have finished when the caller looks at them.
    public final var queuedOperations: [Operation] { state.withLock { $0.operations } }

    /// How many operations in the queue have not finished. Constant time.
    public final var queuedOperationCount: Int { state.withLock { $0.count } }

    /// Cancels all operations, and all barriers. What has not been started finishes at once, what runs in its own time.
    override open func cancelAllOperations() {
        // Until all are cancelled nothing is started: a slot that one of them gives back, or the turn of a barrier,
        // must not go to one that is about to be cancelled too. The newest first, so that a dependent does not
        // become ready by the end of what it depends on.
        let occupants = state.withLock { state in
            state.cancellations += 1
            return state.occupantsNewestFirst
        }
        for occupant in occupants {
            switch occupant {
            case .nobody: break
            case .scheduled(let operation): operation.cancel()
            case .foreign(let member):
                member.operation.cancel()
                // Foundation tells nobody that an operation was cancelled which lacked only a slot.
                if member.operation.isCancelled { member.repeatReadiness() }
            }
        }
        scheduler.change { $0.cancellations -= 1 }
    }

    /// Blocks the calling thread until no operation is in the queue, those added meanwhile included.
    override open func waitUntilAllOperationsAreFinished() {
        let semaphore: DispatchSemaphore? = state.withLock { state in
            guard !state.isEmpty else { return nil }
            let semaphore = DispatchSemaphore(value: 0)
            state.idleWaiters.append(semaphore)
            return semaphore
        }
        semaphore?.wait()
    }

    /// How many operations have finished, once its `totalUnitCount` is set: one unit each.
    ///
    /// `Progress` is not thread-safe on Linux. The queue makes its own updates one at a time; add it to
    /// a tree of progresses only if nothing else updates that tree at the same time.
    override open var progress: Progress { scheduler.progress }

    // MARK: For the other files

    var state: ContendedLock<QueueState> { scheduler.state }

    func startInFoundation(_ operation: Operation) {
        super.addOperation(operation)
    }
}
