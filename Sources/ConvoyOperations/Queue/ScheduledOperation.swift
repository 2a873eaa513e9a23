import ConvoySupport
import ConvoyTransport
import Foundation
import Synchronization

/// The base class of Convoy's operations: an `Operation` whose costs do not grow with the number of its dependencies
/// and dependents.
///
/// It can be used wherever Foundation accepts an `Operation`. In a ``RequestOperationQueue``, adding, waiting and
/// finishing take constant time; in a plain `OperationQueue`, it behaves like any other operation. Unlike with
/// Foundation's operations, dependencies can be removed before they have finished, and releasing a chain of any length
/// does not recurse.
///
/// A subclass for synchronous work overrides only `main()`, which runs on the queue's dispatch queue.
///
/// All members can be used from any thread. Nothing is posted while a lock is held.
open class ScheduledOperation: Operation, CustomReflectable, @unchecked Sendable {
    /// The state of the operation, regardless of its class. It is changed only by ``handle(_:)`` and read without a
    /// lock. If a user's class overrides `start()`, it remains in the state before the start.
    let lifecycle = AtomicLifecycle()

    let connections = AtomicOnce<OperationConnections>()
    let scheduler = AtomicOnce<Scheduler>()
    let completion = AtomicOnce<CompletionBlock>()

    /// The index in the queue. Only the scheduler accesses the index, under its lock.
    var queueIndex: Int32 = -1

    private let traits = Atomic<UInt32>(0)
    private let priority = Atomic<Int8>(Int8(QueuePriority.normal.rawValue))
    private let quality = Atomic<Int8>(Int8(QualityOfService.default.rawValue))
    let inquiries = ReadinessTracking()
    /// Whether Foundation's queues contain operations of users' classes. A post to such a queue may call any of them.
    private static let areUsersInFoundationQueues = Atomic<Bool>(false)

    deinit {
        _ = connections.object?.end()
    }

    /// An empty mirror, so that `dump` prints no secrets of a request.
    open var customMirror: Mirror { Mirror(self, children: [], ancestorRepresentation: .suppressed) }

    /// Returns whether the operation has all of the given traits. Takes no lock.
    final func has(_ wanted: OperationTraits) -> Bool {
        OperationTraits(rawValue: traits.load(ordering: .sequentiallyConsistent)).contains(wanted)
    }

    /// Adds traits. Returns the previous traits.
    @discardableResult
    final func declare(_ added: OperationTraits) -> OperationTraits {
        OperationTraits(rawValue: traits.bitwiseOr(added.rawValue, ordering: .sequentiallyConsistent).oldValue)
    }

    /// Adds a trait. Returns false if the operation already had it.
    final func set(_ trait: OperationTraits) -> Bool { !declare(trait).contains(trait) }

    /// The connections, created if needed.
    private var madeConnections: OperationConnections {
        if let connections = connections.object { return connections }
        let made = OperationConnections()
        let wasScheduled = isScheduled
        let wasObserved = isObserved
        if wasScheduled { made.beHeld(self) } else if wasObserved { made.beObserved(self) }
        guard connections.set(made) else { return connections.object ?? made }
        // A scheduler that was set in the meantime found no connections, and a dependency may have finished before the
        // connections held the operation. So the readiness must be checked again.
        if isScheduled, !wasScheduled {
            made.beHeld(self)
            readinessDidChange()
        } else if isObserved, !wasObserved {
            made.beObserved(self)
            readinessDidChange()
        }
        return made
    }

    /// Whether the operation must be notified that its dependencies have finished, although it is not in a queue of
    /// Convoy's.
    private var isObserved: Bool { inquiries.wereMade || has(.startsWhenReady) }

    // MARK: Dependencies

    /// Makes the operation wait for another operation of any class, in any queue or none.
    ///
    /// Takes constant time. Adding a dependency twice has no effect. A dependency that has finished is listed but not
    /// waited for. The same applies to a dependency added after the operation's work has begun: a paused or retried
    /// operation does not wait for it when it continues.
    ///
    /// Operations that wait for each other in a cycle, and are all in a ``RequestOperationQueue``, are cancelled: their
    /// ``cancellationReason`` is a ``RequestOperationQueueError/dependencyCycle(count:)``. An operation that is made to
    /// wait for itself is cancelled immediately, with a count of 1, and does not list itself.
    override open func addDependency(_ operation: Operation) {
        guard operation !== self else { return cancel(because: RequestOperationQueueError.dependencyCycle(count: 1)) }
        guard !has(.over) else { return }
        let connections = madeConnections
        guard let wasReady = connections.add(operation) else { return }
        let scheduled = operation as? ScheduledOperation
        if let scheduled, !scheduled.addDependent(connections) {
            connections.finish(operation)?.readinessDidChange()
            return
        }
        if scheduled?.willReportItsEnd != true {
            let watcher = DependencyWatcher(watched: operation) { operation in
                connections.finish(operation)?.readinessDidChange()
            }
            // The watcher is stored before it starts watching, so that a concurrent removal of the dependency can stop
            // the watcher.
            guard connections.attach(watcher, to: operation) else { return }
            watcher.watch()
        }
        // A scheduler checks again before it starts an operation. A Foundation queue keeps the old answer unless
        // notified.
        if isScheduled || has(.startsWhenReady) { checkDependencies() } else if wasReady { readinessDidChange() }
    }

    /// Removes a dependency. Does nothing if the operation was not a dependency.
    ///
    /// Takes constant time, and may make the operation ready immediately.
    override open func removeDependency(_ operation: Operation) {
        if connections.object?.remove(operation) == true { readinessDidChange() }
    }

    /// The operations that this one waits for or has waited for, in the order in which they were added.
    ///
    /// Finished operations stay in the list until the operation itself has finished; then the list is empty.
    override open var dependencies: [Operation] { connections.object?.dependencies ?? [] }

    final var unfinishedDependencies: [Operation] { connections.object?.unfinishedDependencies ?? [] }

    /// The operations that depend on this one, and may be in queues or awaited.
    final var knownDependents: [ScheduledOperation] { connections.object?.knownDependents ?? [] }

    /// Whether all dependencies have finished. Reading this property takes no lock.
    package final var areDependenciesFinished: Bool { connections.object?.areDependenciesFinished ?? true }

    /// Adds a dependent. Returns false if this operation is over.
    private func addDependent(_ dependent: OperationConnections) -> Bool {
        guard !has(.over) else { return false }
        return madeConnections.addDependent(dependent) { has(.over) }
    }

    // MARK: State

    /// Whether the operation may be started: all dependencies have finished, or it is cancelled.
    ///
    /// A subclass with further conditions returns `super.isReady && …`, and calls `readinessDidChange()` when one of
    /// them changes.
    override open var isReady: Bool { answer(isHeldByNobody && lifecycle.value.isStartable) }

    /// Returns the answer to `isReady` and records it. Every override of `isReady` in the library that does not call
    /// `super` must call this method.
    package final func answer(_ isReady: @autoclosure () -> Bool) -> Bool {
        // The record is needed only to detect Foundation queues and to notify them of changes.
        guard !isScheduled else { return isReady() }
        inquiries.begin()
        if !isOfLibrary { Self.areUsersInFoundationQueues.store(true, ordering: .relaxed) }
        connections.object?.beObserved(self)
        let isReady = isReady()
        if inquiries.end(isReady, of: self), !isScheduled {
            DispatchQueue.global().async { self.didChangeValue(forKey: "isReady") }
        }
        return isReady
    }

    /// Whether no dependency and no barrier holds the operation back. Unlike with `isReady`, the evaluation is not
    /// recorded.
    package final var isHeldByNobody: Bool {
        // `super.isReady` also takes the barriers of Foundation queues into account. Dependencies no longer hold back
        // an operation whose work has begun.
        (areDependenciesFinished || endsWithoutWork || lifecycle.value.hasBegun) && (isScheduled || super.isReady)
    }

    /// Whether the operation only has to finish. If so, dependencies, barriers, limits and gates no longer hold it
    /// back.
    package var endsWithoutWork: Bool { has(.endsByLifecycle) ? lifecycle.value.isEnding : isCancelled }

    override open var isExecuting: Bool { lifecycle.value.state == .executing }
    override open var isFinished: Bool { lifecycle.value.state == .finished }
    override open var isCancelled: Bool { lifecycle.value.isCancelled }

    /// The priority among the ready operations of the same queue. It can be changed until the operation starts.
    override open var queuePriority: QueuePriority {
        get { QueuePriority(rawValue: Int(priority.load(ordering: .relaxed))) ?? .normal }
        set {
            let value = Int8(newValue.rawValue)
            guard priority.exchange(value, ordering: .relaxed) != value else { return }
            super.queuePriority = newValue
            scheduler.object?.priorityDidChange(of: self)
        }
    }

    /// The quality of service. It is used instead of a priority that was not set, in a queue that runs several
    /// operations concurrently. The queue reads it when the operation becomes ready.
    override open var qualityOfService: QualityOfService {
        get { QualityOfService(rawValue: Int(quality.load(ordering: .relaxed))) ?? .default }
        set {
            quality.store(Int8(newValue.rawValue), ordering: .relaxed)
            super.qualityOfService = newValue
        }
    }

    /// A block that is called once on a global queue when the operation has finished, and then released. A block that
    /// is set after the operation has finished is also called once.
    override open var completionBlock: (@Sendable () -> Void)? {
        get { completion.object?.block }
        set {
            if newValue != nil, !completion.isSet { _ = completion.set(CompletionBlock()) }
            completion.object?.block = newValue
            // Either the finishing operation finds the block, or its end is detected here.
            atomicMemoryFence(ordering: .sequentiallyConsistent)
            if has(.over) { completion.object?.run() }
        }
    }

    /// The reason for a cancellation other than by `cancel()`: a ``RequestOperationQueueError``, or the error of a
    /// dependency under ``DependencyFailurePolicy/cancel``.
    public final var cancellationReason: (any Error)? { connections.object?.cancellationReason }

    /// Blocks the calling thread until the operation has finished. By then its completion handlers have been submitted to
    /// their queue, although they may not have run yet.
    override open func waitUntilFinished() {
        super.waitUntilFinished()
        // `isFinished` is true slightly before the end is posted. A user's class posts its end itself.
        guard !has(.over), lifecycle.value.state == .finished else { return }
        let end = DispatchSemaphore(value: 0)
        if madeConnections.addWaiter(end, unless: { has(.over) }) { end.wait() }
    }

    /// Cancels the operation. It no longer waits for its dependencies, and finishes without doing its work.
    ///
    /// In a ``RequestOperationQueue``, an operation that has not been started, or that has released its slot, finishes
    /// immediately, regardless of limits. If it is not asynchronous, it does so on the calling thread.
    override open func cancel() {
        // The lifecycle must change before `super.cancel()`, in which Foundation evaluates `isReady`.
        guard !isFinished, let transition = lifecycle.handle(.cancel) else { return }
        super.cancel()
        proceed(after: transition)
    }

    /// Cancels the operation with a reason: see ``cancellationReason``.
    package final func cancel(because error: any Error) {
        madeConnections.noteCancellation(because: error)
        cancel()
    }

    /// Cancels the operation, but leaves what follows from it to the caller, who passes the result to `proceed(after:)`.
    final func markCancelled(because error: any Error) -> AtomicLifecycle.Transition? {
        madeConnections.noteCancellation(because: error)
        return lifecycle.handle(.cancel)
    }

    /// Runs `main()`, unless the operation is cancelled, and finishes. Does nothing if the operation is not ready or
    /// was already started.
    ///
    /// Override it for work that continues after it returns; then override `isExecuting` and `isFinished` too, post
    /// their changes with `didChangeValue(forKey:)` as for any `Operation`, and do not call `super`. A cancelled
    /// operation is also started, so that it finishes.
    override open func start() {
        guard lifecycle.value.wasStarted || isReady else { return slotDidFree() }
        handle(.start)
    }

    // MARK: The lifecycle

    /// Applies an event to the operation. Can be called from any thread.
    final func handle(_ event: Lifecycle.Event) {
        if let transition = lifecycle.handle(event) { proceed(after: transition) }
    }

    /// Performs a lifecycle change for a single-attempt operation, which is never retried, and never paused after it
    /// has begun.
    package func proceed(after transition: AtomicLifecycle.Transition) {
        switch transition.action {
        case .begin:
            executionDidBegin()
            performWork()
        case .stop: stopWork()
        case .slotFreed: slotDidFree()
        case .readinessChanged: readinessDidChange()
        case .restart: if lifecycle.value.wasStarted, !isScheduled { handle(.start) } else { readinessDidChange() }
        case .finish: executionDidFinish()
        case .nothing, .stopAndFreeSlot, .holdAndFreeSlot, .release, .awaitRetry, .commit, .awaitCommit: break
        }
    }

    /// Performs the work of a single-attempt operation, and calls ``workDidEnd()`` when done, immediately or later.
    func performWork() {
        // A subclass may override `isCancelled`, and a cancellation may have just arrived.
        if !isCancelled { main() }
        workDidEnd()
    }

    /// Called when the operation is cancelled during its work.
    func stopWork() {}

    /// Finishes a single-attempt operation. Only the first call has an effect.
    final func workDidEnd() { handle(.workCompleted(lifecycle.value.attemptNumber)) }

    // MARK: User code

    /// Whether the class is the library's own, not a user's subclass, which may override `isReady`, `isFinished` or
    /// `isCancelled`.
    package var isOfLibrary: Bool { has(.ofLibrary) }

    /// Whether a change must be posted on another thread, because its receivers may be user code, which must not run on
    /// a network thread.
    package final var mustPostElsewhere: Bool {
        guard !isOfLibrary || has(.wakesForeign) || !isScheduled && inquiries.wereMade else { return false }
        return NetworkThread.isCurrent
            && (!isOfLibrary || has(.wakesForeign) || Self.areUsersInFoundationQueues.load(ordering: .relaxed))
    }

    // MARK: For the queue

    /// Whether the queue calls `start()` inline, on the thread that made the operation ready. If so, `start()` must
    /// never block; otherwise it is called on the queue's dispatch queue. The queue reads this property once, when the
    /// operation becomes ready.
    package var isStartedDirectly: Bool { has(.startedDirectly) }

    /// Whether the class calls ``executionDidFinish()`` at its end. A user's class that overrides `start()` cannot, so
    /// its queue watches for its end.
    package var reportsItsEnd: Bool { lifecycle.value.wasStarted }

    /// Whether the operation is certain to report its end, whether it was started or not.
    private var willReportItsEnd: Bool { isOfLibrary || reportsItsEnd }

    /// Whether the operation uses a slot of its queue while it executes. An operation without a slot starts regardless
    /// of limits and rates, but not while the queue is suspended or while a barrier added before it is pending. The
    /// queue reads this property once, when the operation is added.
    package final var takesSlot: Bool { !has(.slotless) }

    /// The host whose limit and gate apply to the operation, in the form of ``Target/place``, and whether the operation
    /// waits while that gate is closed. The queue reads this property when the operation becomes ready. Both values are
    /// read together because the same lock may guard them.
    package var hostAndGate: (host: String?, waitsAtGate: Bool) { (nil, false) }

    /// The host whose limit and gate apply to the operation; nil for none.
    package final var schedulingHost: String? { hostAndGate.host }

    /// Called once for each wait when the closed gate of its host holds the ready operation back. Called on any thread,
    /// with no lock held.
    ///
    /// - Parameter deadline: The time when the gate opens, in nanoseconds of the queue's clock. The gate may be closed
    ///   for longer or opened earlier in the meantime.
    package func willWaitAtGate(until deadline: UInt64) {}

    /// Called when the ready operation begins to wait in its queue, if it has requested this. The queue's lock is held,
    /// so it must return quickly and run no user code.
    func willWait(for reason: WaitReason) {}

    /// The reason why the operation waits between two attempts.
    var delayReason: WaitReason { .retry }

    /// Whether a dependency that has not finished holds the operation back.
    var waitsForDependencies: Bool { !areDependenciesFinished && !endsWithoutWork && !lifecycle.value.hasBegun }

    /// Whether the operation has a dependency that nothing has started.
    final var waitsForUnstarted: Bool {
        represented.dependencies.contains { ($0 as? ScheduledOperation)?.isUnclaimed ?? false }
    }

    /// Whether the operation is in a ``RequestOperationQueue``, which calls `start()` again after a pause.
    package final var isScheduled: Bool { scheduler.isSet }

    /// Whether the queue must be notified when the host answers, because the host has refused connections.
    package final var reportsAnswer: Bool {
        get { has(.reportsAnswer) }
        set {
            if newValue {
                declare(.reportsAnswer)
            } else {
                traits.bitwiseAnd(~OperationTraits.reportsAnswer.rawValue, ordering: .sequentiallyConsistent)
            }
        }
    }

    /// The operation that this one stands for in its queue: itself, except for an ``ExternalOperation``.
    var represented: Operation { self }

    /// Sets the scheduler to which changes are reported. Returns false if the operation already has a scheduler or is
    /// over.
    func join(_ scheduler: Scheduler) -> Bool {
        guard !has(.over), self.scheduler.set(scheduler) else { return false }
        // From here on the operation is retained, first by the thread that adds it, then by the scheduler.
        connections.object?.beHeld(self)
        if has(.hearsOfQueue) { didJoinQueue() }
        return true
    }

    /// Called when the scheduler releases an operation that has finished without posting its end.
    func leave() { connections.object?.letGo() }

    /// Called when the operation has been added to a ``RequestOperationQueue``, before it can be started, if it has
    /// declared ``OperationTraits/hearsOfQueue``.
    package func didJoinQueue() {}

    /// Releases the work of an operation that has finished, whether it has run or not.
    func releaseWork() {}

    // MARK: Gates

    /// Closes the gate of a host in the operation's queue until a time on the queue's clock, in nanoseconds. With a
    /// `patience`, `ReadyQueue.closeGate` describes when it opens.
    final func closeGate(of host: String, until deadline: UInt64, patience: UInt64? = nil) {
        scheduler.object?.change { $0.lanes.closeGate(of: host, until: deadline, patience: patience) }
    }

    /// Reports that a host which had refused connections has answered.
    package final func hostDidAnswer(_ host: String?) {
        reportsAnswer = false
        guard let scheduler = scheduler.object, let host else { return }
        scheduler.change { $0.lanes.noteAnswer(of: host) }
    }
}
