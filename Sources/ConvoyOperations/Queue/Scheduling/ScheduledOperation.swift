import ConvoySupport
import Foundation
import Synchronization

/// The base class of Convoy's operations: an `Operation` whose bookkeeping stays cheap however many
/// operations it is connected to.
///
/// It can be used wherever Foundation takes an `Operation`. In a ``RequestOperationQueue`` adding,
/// waiting and finishing take constant time; in a plain `OperationQueue` it behaves as any operation
/// does there. Unlike Foundation's, its dependencies can be removed before they have finished, and
/// releasing a chain of any length does not recurse.
///
/// A subclass for synchronous work overrides `main()` and nothing else. It runs on the queue's
/// dispatch queue.
///
/// All members can be used from any thread. Nothing is posted while a lock is held.
open class ScheduledOperation: Operation, @unchecked Sendable {
    /// What has happened to the operation. None of it is undone.
    private enum Mark {
        /// `start()` of this class has begun.
        static let begun: UInt8 = 1
        /// `start()` of this class has done its work.
        static let done: UInt8 = 2
        static let cancelled: UInt8 = 4
        /// The end is being posted. Whoever connects the operation with another one, or adds it to a queue, either sees
        /// this mark or is seen by the end.
        static let over: UInt8 = 8
        /// A queue has taken the operation, or is about to.
        static let claimed: UInt8 = 32
    }

    private let connections = OnceReference<OperationConnections>()
    private let scheduler = OnceReference<Scheduler>()
    private let firstHost = OnceReference<HostKey>()
    private let completion = OnceReference<CompletionBlock>()

    /// The place in the queue. Read and written by the scheduler only, under its lock.
    var queueIndex: Int32 = -1

    private let marks = Atomic<UInt8>(0)
    private let priority = Atomic<Int8>(Int8(QueuePriority.normal.rawValue))
    private let quality = Atomic<Int8>(Int8(QualityOfService.default.rawValue))
    private let inquiries = ReadinessInquiries()

    deinit {
        _ = connections.object?.end()
    }

    private func has(_ mark: UInt8) -> Bool { marks.load(ordering: .sequentiallyConsistent) & mark != 0 }

    /// False if the mark was there.
    private func set(_ mark: UInt8) -> Bool {
        marks.bitwiseOr(mark, ordering: .sequentiallyConsistent).oldValue & mark == 0
    }

    /// The connections, made if there are none yet.
    private var madeConnections: OperationConnections {
        if let connections = connections.object { return connections }
        let made = OperationConnections()
        let (wasScheduled, wasAsked) = (isScheduled, inquiries.wereMade)
        if wasScheduled { made.beHeld(self) } else if wasAsked { made.beObserved(self) }
        guard connections.set(made) else { return connections.object ?? made }
        // A scheduler that came meanwhile has seen no connections, and a dependency may have finished before they knew of
        // the scheduler. So it has to look again.
        if isScheduled, !wasScheduled {
            made.beHeld(self)
            readinessDidChange()
        } else if inquiries.wereMade, !wasAsked {
            made.beObserved(self)
            readinessDidChange()
        }
        return made
    }

    // MARK: Dependencies

    /// Makes the operation wait for another one, of any class, in any queue or none.
    ///
    /// Takes constant time. Adding a dependency twice changes nothing; one that has finished is listed,
    /// but not waited for. It has no effect on an operation that has been started.
    ///
    /// - Precondition: an operation does not depend on itself. A longer cycle is not noticed: its
    ///   operations never run, until one of them is cancelled.
    override open func addDependency(_ operation: Operation) {
        precondition(operation !== self, "an operation cannot depend on itself")
        guard !has(Mark.over) else { return }
        let connections = madeConnections
        guard let (position, wasReady) = connections.add(operation) else { return }
        if let scheduled = operation as? ScheduledOperation {
            guard scheduled.addDependent(connections, position: position) else {
                connections.finish(operation, near: position)?.readinessDidChange()
                return
            }
        } else {
            let watcher = DependencyWatcher(watched: operation) { operation in
                connections.finish(operation, near: position)?.readinessDidChange()
            }
            // Kept before it watches: whoever removes the dependency meanwhile has a watcher to stop.
            guard connections.attach(watcher, to: operation, near: position) else { return }
            watcher.watch()
        }
        // A scheduler asks before it starts anything. A queue of Foundation's keeps the answer.
        if wasReady, !isScheduled { readinessDidChange() }
    }

    /// Makes the operation no longer wait for another one. Does nothing if it did not.
    ///
    /// Takes constant time, and may make the operation ready at once.
    override open func removeDependency(_ operation: Operation) {
        if connections.object?.remove(operation) == true { readinessDidChange() }
    }

    /// The operations that this one waits for or has waited for, in the order in which they were added.
    ///
    /// Finished ones stay in the list until the operation itself has finished; then it is empty.
    override open var dependencies: [Operation] { connections.object?.dependencies ?? [] }

    /// Whether nothing is left to wait for. Takes no lock.
    package final var areDependenciesFinished: Bool { connections.object?.areDependenciesFinished ?? true }

    /// Lets another operation wait for this one. False if this one is over.
    private func addDependent(_ dependent: OperationConnections, position: Int) -> Bool {
        guard !has(Mark.over) else { return false }
        return madeConnections.addDependent(dependent, position: position) { has(Mark.over) }
    }

    // MARK: State

    /// Whether the operation may be started: all dependencies have finished, or it is cancelled.
    ///
    /// A subclass that has more conditions asks `super.isReady && …`, and calls
    /// ``readinessDidChange()`` when one of them changes.
    override open var isReady: Bool { answer(isHeldByNobody) }

    /// Passes the answer to `isReady` on to whoever asks, and keeps a note of it. To be called by each `isReady` of the
    /// library's own that does not ask its superclass.
    package final func answer(_ isReady: @autoclosure () -> Bool) -> Bool {
        // Notes are needed only to find out about a queue of Foundation's, and to tell it of changes.
        guard !isScheduled else { return isReady() }
        inquiries.begin()
        connections.object?.beObserved(self)
        let isReady = isReady()
        if inquiries.end(isReady, of: self), !isScheduled {
            DispatchQueue.global().async { self.didChangeValue(forKey: "isReady") }
        }
        return isReady
    }

    /// Whether no dependency and no barrier holds the operation back. Unlike `isReady`, nobody takes note of the question.
    package final var isHeldByNobody: Bool {
        // Foundation has a count of its own, with which its queues hold an operation behind a barrier.
        (areDependenciesFinished || endsWithoutWork) && (isScheduled || super.isReady)
    }

    /// Whether all that the operation still has to do is to finish. Dependencies, barriers, limits and gates hold up
    /// work, and not this.
    package var endsWithoutWork: Bool { isCancelled }

    override open var isExecuting: Bool {
        marks.load(ordering: .sequentiallyConsistent) & (Mark.begun | Mark.done) == Mark.begun
    }
    override open var isFinished: Bool { has(Mark.done) }
    override open var isCancelled: Bool { has(Mark.cancelled) }

    /// The importance among the operations that are ready in the same queue. Can be changed until the start.
    override open var queuePriority: QueuePriority {
        get { QueuePriority(rawValue: Int(priority.load(ordering: .relaxed))) ?? .normal }
        set {
            let value = Int8(newValue.rawValue)
            guard priority.exchange(value, ordering: .relaxed) != value else { return }
            super.queuePriority = newValue
            scheduler.object?.priorityDidChange(of: self)
        }
    }

    /// Stands in for a priority that was not set, in a queue that runs several operations at a time. Read when the
    /// operation becomes ready.
    override open var qualityOfService: QualityOfService {
        get { QualityOfService(rawValue: Int(quality.load(ordering: .relaxed))) ?? .default }
        set {
            quality.store(Int8(newValue.rawValue), ordering: .relaxed)
            super.qualityOfService = newValue
        }
    }

    /// Called when the operation has finished, on a global queue. Forgotten then. One that is set after the end is called
    /// as well, once.
    override open var completionBlock: (@Sendable () -> Void)? {
        get { completion.object?.block }
        set {
            if newValue != nil, !completion.isSet { _ = completion.set(CompletionBlock()) }
            completion.object?.block = newValue
            // The end sees the block, or is seen here.
            atomicMemoryFence(ordering: .sequentiallyConsistent)
            if has(Mark.over) { completion.object?.run() }
        }
    }

    /// Why the operation was cancelled, if a queue did that: a ``RequestOperationQueueError``.
    public final var cancellationReason: (any Error)? { connections.object?.cancellationReason }

    /// Cancels the operation. It no longer waits for its dependencies, and finishes without its work.
    ///
    /// In a ``RequestOperationQueue`` one that has not been started, or that gave its slot back, finishes at once,
    /// whatever holds the others back. One that is not asynchronous does so on the thread that calls this.
    override open func cancel() {
        guard !isFinished else { return }
        // Before Foundation asks whether it is ready now.
        _ = set(Mark.cancelled)
        super.cancel()
        scheduler.object?.readinessDidChange(of: self)
    }

    func cancel(because error: any Error) {
        madeConnections.noteCancellation(because: error)
        cancel()
    }

    /// Runs `main()`, unless the operation is cancelled, and finishes. Does nothing if the operation
    /// is not ready, or was started before.
    ///
    /// Override it for work that goes on after it has returned; then override `isExecuting` and
    /// `isFinished` too and do not call `super`.
    override open func start() {
        guard isReady else { return slotDidFree() }
        guard set(Mark.begun) else { return }
        if !isCancelled {
            executionDidBegin()
            main()
        }
        _ = set(Mark.done)
        executionDidFinish()
    }

    // MARK: What a queue asks

    /// Whether the queue calls `start()` in line, on the thread that made the operation ready. It
    /// must then never block. Otherwise it is called on the dispatch queue of the queue. Asked once,
    /// when the operation becomes ready.
    package var isStartedDirectly: Bool { false }

    /// The host whose limit and gate apply to the operation; nil for none. Asked when the operation becomes ready.
    package var hostKey: HostKey? { nil }

    /// The name of the host whose limit and gate apply to the operation; nil for none.
    package final var schedulingHost: String? { hostKey?.name }

    /// The key of a URL's host. That of the first URL is kept, so that the host is looked up once for an operation.
    package final func hostKey(of url: URL?) -> HostKey? {
        guard let url else { return nil }
        if let known = firstHost.object { return HostKey.of(url, guess: known) }
        let key = HostKey.of(url)
        if let key { _ = firstHost.set(key) }
        return key
    }

    /// Whether the operation waits while the gate of its host is closed; false lets it pass. Asked when the operation
    /// becomes ready.
    package var waitsAtClosedGate: Bool { false }

    /// Called when the operation, which is ready, is held back by the closed gate of its host: once for each wait, on
    /// any thread, with no lock held.
    ///
    /// - Parameter deadline: when the gate opens, in nanoseconds of the queue's clock. It may be closed for longer
    ///   meanwhile, or opened before.
    package func willWaitAtGate(until deadline: UInt64) {}

    /// Whether the operation may be in a queue, Convoy's or Foundation's, which will call `start()`. True where it
    /// cannot be found out, because somebody has evaluated `isReady`: to start by hand what a queue of Foundation's holds
    /// would corrupt that queue's memory.
    package final var mayBeEnqueued: Bool { isScheduled || inquiries.wereMade }

    /// Whether the work has begun by a call of `start()`, whoever made it.
    package var wasStarted: Bool { has(Mark.begun) }

    /// Takes the operation for the queue of awaited operations. False if it may be in a queue, or on its way into one, or
    /// was started by hand: then somebody else sees to it that it finishes.
    final func claimForAwaiting() -> Bool {
        !mayBeEnqueued && !wasStarted && !isExecuting && set(Mark.claimed)
    }

    /// Takes the operation for a queue of Foundation's. False if another queue has it, or is about to.
    final func claimForFoundation() -> Bool { !isScheduled && set(Mark.claimed) }

    /// Whether the operation has, or had, something to wait for.
    final var hasConnections: Bool { connections.isSet }

    /// Whether the operation is in a ``RequestOperationQueue``, which calls `start()` again after a pause.
    package final var isScheduled: Bool { scheduler.isSet }

    /// Lets the queue hold back what waits at the gate of the operation's host until a time on its clock, in nanoseconds.
    package final func closeHostGate(until deadline: UInt64) {
        guard let scheduler = scheduler.object, let host = hostKey else { return }
        scheduler.closeGate(of: host, until: deadline)
    }

    /// Makes a scheduler the one that is told of changes. False if there is one already, or if it is too late.
    func join(_ scheduler: Scheduler) -> Bool {
        guard !has(Mark.over), self.scheduler.set(scheduler) else { return false }
        // From here on the thread that adds the operation keeps it, and then the scheduler.
        connections.object?.beHeld(self)
        didJoinQueue()
        return true
    }

    /// The scheduler lets go of an operation that has finished without having said so.
    func leave() { connections.object?.letGo() }

    /// Called when a ``RequestOperationQueue`` has taken the operation, before it can be started.
    package func didJoinQueue() {}

    /// Lets go of the work of an operation that has finished, run or not.
    func releaseWork() {}

    // MARK: What a subclass posts

    /// Says that `isReady` may have changed, in either direction.
    package final func readinessDidChange() {
        if let scheduler = scheduler.object {
            scheduler.readinessDidChange(of: self)
        } else {
            inquiries.post(self)
        }
    }

    /// Says that the operation has begun to execute.
    package final func executionDidBegin() {
        // On Linux nobody observes it but a queue of Foundation's that holds the operation.
        if !isScheduled { didChangeValue(forKey: "isExecuting") }
    }

    /// Says that a started operation stopped before its end, and gives its slot to others.
    ///
    /// To be called once for each `start()` that ended in a pause, or that found the operation not
    /// ready. When the operation is ready again it calls ``readinessDidChange()``; the queue then
    /// calls `start()` again as soon as there is a slot.
    package final func slotDidFree() {
        if let scheduler = scheduler.object {
            scheduler.slotDidFree(by: self)
        } else {
            inquiries.post(self)
        }
    }

    /// Says that `isFinished` has become true: posts it, wakes the dependents, and gives the slot back.
    ///
    /// Only the first call counts. Afterwards the operation has no dependencies, no work and no
    /// completion block any more.
    package final func executionDidFinish() {
        guard set(Mark.over) else { return }
        let dependents = connections.object?.end()
        didChangeValue(forKey: "isFinished")
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        completion.object?.run()
        releaseWork()
        scheduler.object?.operationDidFinish(self)
        dependents?.forEach { dependent in
            dependent.object.finish(self, near: dependent.position)?.readinessDidChange()
        }
    }
}
