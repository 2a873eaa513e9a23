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
    private struct Connections {
        var dependencies = DependencyLinks()
        var dependents = DependentList()
        var hasFinished = false
        var queue: RequestOperationQueue?
    }

    private enum Work {
        static let idle: UInt8 = 0
        static let executing: UInt8 = 1
        static let finished: UInt8 = 2
    }

    private let connections = Locked(Connections())
    private let unfinishedDependencies = Atomic<Int>(0)
    private let work = Atomic<UInt8>(Work.idle)
    private let priority = Atomic<Int>(QueuePriority.normal.rawValue)
    private let reason = Locked<(any Error)?>(nil)
    private let inquiries = ReadinessInquiries()
    private let firstHost = OnceReference<HostKey>()

    /// The place in the queue. Read and written by the queue only, under its lock.
    var queueIndex: Int32 = -1

    deinit {
        releaseDependencies()
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
        let added: (position: Int, wasReady: Bool)? = connections.withLock { connections in
            guard !connections.hasFinished, let position = connections.dependencies.append(operation) else {
                return nil
            }
            return (position, unfinishedDependencies.add(1, ordering: .sequentiallyConsistent).oldValue == 0)
        }
        guard let added else { return }
        if let scheduled = operation as? ScheduledOperation {
            let isWaitedFor = scheduled.connections.withLock { connections in
                guard !connections.hasFinished else { return false }
                connections.dependents.append(self, position: added.position)
                return true
            }
            if !isWaitedFor {
                dependencyDidFinish(operation, position: added.position)
            } else if added.wasReady {
                readinessDidChange()
            }
            return
        }
        let watcher = DependencyWatcher(watched: operation) { [weak self] operation in
            self?.dependencyDidFinish(operation, position: added.position)
        }
        // Kept before it watches: whoever removes the dependency meanwhile has a watcher to stop.
        guard connections.withLock({ $0.dependencies.attach(watcher, to: operation) }) else { return }
        watcher.watch()
        if added.wasReady { readinessDidChange() }
    }

    /// Makes the operation no longer wait for another one. Does nothing if it did not.
    ///
    /// Takes constant time, and may make the operation ready at once.
    override open func removeDependency(_ operation: Operation) {
        let removed = connections.withLock { connections in
            let removed = connections.dependencies.remove(operation)
            let isLast =
                removed?.wasUnfinished == true
                && unfinishedDependencies.subtract(1, ordering: .sequentiallyConsistent).newValue == 0
            return (watcher: removed?.watcher, isLast: isLast)
        }
        removed.watcher?.stop()
        if removed.isLast { readinessDidChange() }
    }

    /// The operations that this one waits for or has waited for, in the order in which they were added.
    ///
    /// Finished ones stay in the list until the operation itself has finished; then it is empty.
    override open var dependencies: [Operation] {
        connections.withLock { $0.dependencies.operations }
    }

    /// Whether nothing is left to wait for. Takes no lock.
    package final var areDependenciesFinished: Bool {
        unfinishedDependencies.load(ordering: .sequentiallyConsistent) == 0
    }

    private func dependencyDidFinish(_ operation: Operation, position: Int) {
        let (watcher, isLast) = connections.withLock { connections in
            guard let watcher = connections.dependencies.finish(operation, near: position) else {
                return (DependencyWatcher?.none, false)
            }
            return (watcher, unfinishedDependencies.subtract(1, ordering: .sequentiallyConsistent).newValue == 0)
        }
        _ = watcher
        if isLast { readinessDidChange() }
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
        inquiries.begin()
        let isReady = isReady()
        if inquiries.end(isReady), !isScheduled {
            DispatchQueue.global().async { self.didChangeValue(forKey: "isReady") }
        }
        return isReady
    }

    /// Whether no dependency and no barrier holds the operation back. Unlike `isReady`, nobody takes note of the question.
    package final var isHeldByNobody: Bool {
        // Foundation's own count matters too: its queues hold an operation behind a barrier with it.
        (areDependenciesFinished || endsWithoutWork) && super.isReady
    }

    /// Whether all that the operation still has to do is to finish. Dependencies, barriers, limits and gates hold up
    /// work, and not this.
    package var endsWithoutWork: Bool { isCancelled }

    override open var isExecuting: Bool { work.load(ordering: .sequentiallyConsistent) == Work.executing }
    override open var isFinished: Bool { work.load(ordering: .sequentiallyConsistent) == Work.finished }

    /// The importance among the operations that are ready in the same queue. Can be changed until the start.
    override open var queuePriority: QueuePriority {
        get { QueuePriority(rawValue: priority.load(ordering: .relaxed)) ?? .normal }
        set {
            guard priority.exchange(newValue.rawValue, ordering: .relaxed) != newValue.rawValue else { return }
            super.queuePriority = newValue
            queue?.priorityDidChange(of: self)
        }
    }

    /// Why the operation was cancelled, if a queue did that: a ``RequestOperationQueueError``.
    public final var cancellationReason: (any Error)? { reason.withLock { $0 } }

    /// Cancels the operation. It no longer waits for its dependencies, and finishes without its work.
    ///
    /// In a ``RequestOperationQueue`` one that has not been started, or that gave its slot back, finishes at once,
    /// whatever holds the others back. One that is not asynchronous does so on the thread that calls this.
    override open func cancel() {
        super.cancel()
        queue?.readinessDidChange(of: self)
    }

    func cancel(because error: any Error) {
        reason.withLock { if $0 == nil { $0 = error } }
        cancel()
    }

    /// Runs `main()`, unless the operation is cancelled, and finishes. Does nothing if the operation
    /// is not ready, or was started before.
    ///
    /// Override it for work that goes on after it has returned; then override `isExecuting` and
    /// `isFinished` too and do not call `super`.
    override open func start() {
        guard isReady else { return slotDidFree() }
        guard work.compareExchange(expected: Work.idle, desired: Work.executing, ordering: .sequentiallyConsistent).exchanged
        else { return }
        if !isCancelled {
            executionDidBegin()
            main()
        }
        work.store(Work.finished, ordering: .sequentiallyConsistent)
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

    /// Whether the operation is in a ``RequestOperationQueue``, which calls `start()` again after a pause.
    package final var isScheduled: Bool { queue != nil }

    /// Lets the queue hold back what waits at the gate of the operation's host until a time on its clock, in nanoseconds.
    package final func closeHostGate(until deadline: UInt64) {
        guard let queue, let host = hostKey else { return }
        queue.closeGate(of: host, until: deadline)
    }

    private var queue: RequestOperationQueue? { connections.withLock { $0.queue } }

    /// Makes `queue` the one that is told of changes. False if there is one already, or if it is too late.
    func join(_ queue: RequestOperationQueue) -> Bool {
        let isNew = connections.withLock { connections in
            guard connections.queue == nil, !connections.hasFinished else { return false }
            connections.queue = queue
            return true
        }
        if isNew { didJoinQueue() }
        return isNew
    }

    /// Called when a ``RequestOperationQueue`` has taken the operation, before it can be started.
    package func didJoinQueue() {}

    func leaveQueue() {
        let queue = connections.withLock { connections in
            let queue = connections.queue
            connections.queue = nil
            return queue
        }
        _ = queue
    }

    /// Lets go of the work of an operation that has finished, run or not.
    func releaseWork() {}

    // MARK: What a subclass posts

    /// Says that `isReady` may have changed, in either direction.
    package final func readinessDidChange() {
        if let queue {
            queue.readinessDidChange(of: self)
        } else {
            inquiries.post(self)
        }
    }

    /// Says that the operation has begun to execute.
    package final func executionDidBegin() {
        didChangeValue(forKey: "isExecuting")
    }

    /// Says that a started operation stopped before its end, and gives its slot to others.
    ///
    /// To be called once for each `start()` that ended in a pause, or that found the operation not
    /// ready. When the operation is ready again it calls ``readinessDidChange()``; the queue then
    /// calls `start()` again as soon as there is a slot.
    package final func slotDidFree() {
        if let queue {
            queue.slotDidFree(by: self)
        } else {
            inquiries.post(self)
        }
    }

    /// Says that `isFinished` has become true: posts it, wakes the dependents, and gives the slot back.
    ///
    /// Only the first call counts. Afterwards the operation has no dependencies, no work and no
    /// completion block any more.
    package final func executionDidFinish() {
        let dependents: ContiguousArray<DependentList.Dependent>? = connections.withLock { connections in
            guard !connections.hasFinished else { return nil }
            connections.hasFinished = true
            return connections.dependents.removeAll()
        }
        guard let dependents else { return }
        releaseDependencies()
        didChangeValue(forKey: "isFinished")
        // Foundation has handed the block on by now, and would keep it for ever.
        super.completionBlock = nil
        releaseWork()
        let queue = self.queue
        queue?.operationDidFinish(self)
        for dependent in dependents {
            dependent.operation?.dependencyDidFinish(self, position: dependent.position)
        }
        leaveQueue()
    }

    private func releaseDependencies() {
        let (operations, watchers) = connections.withLock { $0.dependencies.removeAll() }
        for watcher in watchers { watcher.stop() }
        DeferredRelease.release(consume operations)
    }
}
