import ConvoySupport
import Foundation
import Synchronization

/// The engine of a ``RequestOperationQueue``, which handles an operation from its addition to its end.
///
/// An operation retains its scheduler for its lifetime, so the reference can be read without a lock. It does not retain
/// the queue, because users may expect the queue to be released; the scheduler retains the queue while it contains
/// operations.
///
/// Every change takes the lock once, and grants the slots that it freed before it releases the lock. So whenever the
/// lock is free, some thread is about to start each operation that could start.
final class Scheduler: @unchecked Sendable {
    let state: ContendedLock<QueueState>
    let clock: any SchedulingClock
    private let isSerial = Atomic<Bool>(false)
    let progress = QueueProgress()
    private let starts = StartBacklog()
    private let timers = Locked<[String?: (deadline: UInt64, timer: any ClockTimer)]>([:])

    init(clock: any SchedulingClock) {
        self.clock = clock
        state = ContendedLock(QueueState(clock: clock))
    }

    deinit {
        for set in timers.withLock({ $0 }).values { set.timer.cancel() }
    }

    /// Whether operations run serially, and therefore in the promised order.
    var isOneAtATime: Bool {
        get { isSerial.load(ordering: .relaxed) }
        set { isSerial.store(newValue, ordering: .relaxed) }
    }

    // MARK: Adding

    func insert(_ operation: Operation, flags: QueueSlot.Flags, into queue: RequestOperationQueue) {
        if let scheduled = operation as? ScheduledOperation { return insert(scheduled, flags: flags, into: queue) }
        guard state.withLock({ $0.externals.insert(ObjectIdentifier(operation)).inserted }) else {
            return giveUpPlace(flags)
        }
        let member = ExternalOperation(operation, in: queue)
        insert(member, flags: flags, into: queue)
        member.watch()
    }

    private func insert(
        _ operation: ScheduledOperation, flags: QueueSlot.Flags, into queue: RequestOperationQueue
    ) {
        // From here on the operation's changes are reported to this scheduler. `catchUp` handles earlier changes.
        let flags = operation.takesSlot ? flags : flags.union(.slotless)
        guard operation.join(self) else { return giveUpPlace(flags) }
        let snapshot = ReadinessSnapshot(of: operation, inSerialQueue: isOneAtATime)
        let effects = visit { state, effects in
            state.insert(operation, flags: flags, into: queue)
            state.makeReady(operation, snapshot, &effects)
        }
        if operation.isFinished { letGo(of: operation) }
        carryOut(effects)
        catchUp(on: operation, since: snapshot)
        // Most operations have neither dependencies nor dependents.
        if operation.connections.isSet { operation.checkDependencies() }
    }

    private func giveUpPlace(_ flags: QueueSlot.Flags) {
        if flags.contains(.counted) { change { $0.capacity.retract() } }
    }

    /// Adds an operation that runs after all operations in the queue and before all later ones.
    func insertBarrier(_ operation: ScheduledOperation, into queue: RequestOperationQueue) {
        guard operation.join(self) else { return }
        change { $0.insert(operation, flags: .barrier, into: queue) }
    }

    // MARK: Members

    /// The operations in the queue and their stages, in the order in which they were added.
    var members: [QueueSlot] {
        state.withLock { state in state.slots.filter { $0.stage != .free } }.sorted { $0.number < $1.number }
    }

    /// Records that an operation of another class has left the queue.
    func forget(_ operation: Operation) { state.withLock { _ = $0.externals.remove(ObjectIdentifier(operation)) } }

    /// Cancels operations without starting any in the meantime: a freed slot must not go to an operation that is about
    /// to be cancelled, no barrier may run, and the end of an operation must not let the next begin its work.
    static func cancel(_ operations: [ScheduledOperation], in schedulers: [Scheduler], because error: (any Error)? = nil) {
        for scheduler in schedulers { scheduler.state.withLock { $0.cancellations += 1 } }
        for operation in operations {
            if let error { operation.cancel(because: error) } else { operation.cancel() }
        }
        for scheduler in schedulers { scheduler.change { $0.cancellations -= 1 } }
    }

    // MARK: Changes

    func readinessDidChange(of operation: ScheduledOperation) {
        let snapshot = ReadinessSnapshot(of: operation, inSerialQueue: isOneAtATime)
        guard snapshot.isReady else { return }
        change { state, effects in state.makeReady(operation, snapshot, &effects) }
        catchUp(on: operation, since: snapshot)
    }

    /// Handles changes to an operation after its snapshot whose notifications arrived before its insertion.
    private func catchUp(on operation: ScheduledOperation, since snapshot: ReadinessSnapshot) {
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if !snapshot.isReady || !snapshot.isCancelled && operation.endsWithoutWork {
            readinessDidChange(of: operation)
        } else if Int(snapshot.level) != PriorityLevel.level(of: operation, inSerialQueue: isOneAtATime) {
            priorityDidChange(of: operation)
        }
    }

    func priorityDidChange(of operation: ScheduledOperation) {
        var level: Int
        repeat {
            level = PriorityLevel.level(of: operation, inSerialQueue: isOneAtATime)
            state.withLock { $0.setLevel(level, of: operation) }
            // Two concurrent changes may arrive in the wrong order.
        } while level != PriorityLevel.level(of: operation, inSerialQueue: isOneAtATime)
    }

    func slotDidFree(by operation: ScheduledOperation) {
        change { state, effects in state.giveBack(operation, &effects) }
        // The operation may have become ready again before the slot was released, which is reported only here.
        operation.readinessDidChange()
    }

    func operationDidFinish(_ operation: ScheduledOperation) {
        var flags: QueueSlot.Flags?
        let effects = visit { state, effects in flags = state.remove(operation, &effects) }
        if let flags, !flags.contains(.barrier) { progress.countOne() }
        carryOut(effects)
    }

    /// Removes an operation that has finished, even if it never posts its end.
    private func letGo(of operation: ScheduledOperation) {
        operation.leave()
        // Otherwise, its dependents would not be notified.
        if !operation.reportsItsEnd { operation.executionDidFinish() }
        operationDidFinish(operation)
    }

    /// Moves an executing operation to the host that it was redirected to. If that host has no free slot, or its gate
    /// is closed, the operation waits, with a slot of the queue but without a host slot.
    ///
    /// - Parameters:
    ///   - isCurrent: A closure that returns whether the operation is still doing the work that was redirected. It is
    ///     evaluated under the lock: an operation that is paused or ends later releases the new slot.
    ///   - goOn: The closure called on any thread once a slot is available; not called if the operation has stopped.
    func redirect(
        _ operation: ScheduledOperation, to host: String, if isCurrent: () -> Bool,
        then goOn: @escaping @Sendable () -> Void
    ) {
        var mayGoOn = false
        change { state, _ in if isCurrent() { mayGoOn = state.redirect(operation, to: host, then: goOn) } }
        if mayGoOn { goOn() }
    }

    // MARK: Timers

    /// Sets the timer that wakes a host, or all hosts if nil, or cancels it. Must be called after each change of that
    /// time: the last call then uses the latest state.
    private func setTimer(of host: String?) {
        timers.withLock { timers in
            let deadline = state.withLock { $0.lanes.wakeTime(of: host) }
            guard timers[host]?.deadline != deadline else { return }
            timers.removeValue(forKey: host)?.timer.cancel()
            guard let deadline else { return }
            let timer = clock.schedule(at: deadline) { [weak self] in
                guard let self else { return }
                let now = max(self.clock.now, deadline)
                self.change { $0.lanes.wake(host, at: now) }
                self.setTimer(of: host)
            }
            timers[host] = (deadline, timer)
        }
    }

    // MARK: Starting

    /// Changes the state, and starts all operations that can then start.
    func change(_ change: (inout QueueState) -> Void) { self.change { state, _ in change(&state) } }

    private func change(_ change: (inout QueueState, inout QueueState.Effects) -> Void) {
        carryOut(visit(change))
    }

    /// Changes the state, and grants a slot that is then free. Returns the actions to perform outside the lock.
    @inline(__always)
    private func visit(_ change: (inout QueueState, inout QueueState.Effects) -> Void) -> QueueState.Effects {
        let mayStart = !StartTrampoline.isActive
        var effects = QueueState.Effects()
        state.withLock { state in
            change(&state, &effects)
            state.settle(&effects, mayStart: mayStart)
        }
        return effects
    }

    private func carryOut(_ effects: QueueState.Effects) {
        if StartTrampoline.isActive {
            perform(effects)
            if effects.hasMore { StartTrampoline.postpone(self) }
        } else if effects.hasMore || effects.grant != nil {
            StartTrampoline.run(self, effects)
        } else {
            perform(effects)
        }
    }

    /// Starts the next operation that can start. Returns whether more can be started.
    func startNext() -> Bool {
        var effects = QueueState.Effects()
        state.withLock { $0.settle(&effects, mayStart: true) }
        perform(effects)
        return effects.hasMore
    }

    func perform(_ effects: QueueState.Effects) {
        for effect in effects.effects {
            switch effect {
            case .admit(let waiter): if !waiter.admission.set(true) { change { $0.capacity.retract() } }
            case .signal(let semaphore): semaphore.signal()
            case .setTimer(let host): setTimer(of: host)
            case .goOn(let goOn): goOn()
            case .reportGate, .release: break
            }
        }
        if let operation = effects.grant {
            if let queue = effects.startingQueue {
                begin(operation, onDispatchQueueOf: queue)
            } else {
                begin(operation)
            }
        }
        guard !effects.effects.isEmpty else { return }
        for case .reportGate(let operation, let deadline) in effects.effects {
            operation.willWaitAtGate(until: deadline)
        }
    }

    /// Starts an operation that was granted a slot on the dispatch queue of its queue.
    private func begin(_ operation: ScheduledOperation, onDispatchQueueOf queue: RequestOperationQueue) {
        let start: @Sendable (ScheduledOperation) -> Void = { [self] operation in
            if state.withLock({ $0.beginGranted(operation) }) { begin(operation) }
        }
        #if DEBUG
        if let threads = Simulation.threads { return threads.perform { start(operation) } }
        #endif
        starts.append(operation, in: queue, start: start)
    }

    /// Starts an operation that was granted a slot.
    private func begin(_ operation: ScheduledOperation) {
        guard !operation.mustPostElsewhere else {
            return BlockingWorkers.shared.perform { [self] in begin(operation) }
        }
        if operation.isFinished {
            letGo(of: operation)
        } else if operation.isReady {
            operation.start()
            if !operation.reportsItsEnd { DependencyWatcher.watchEnd(of: operation) }
        } else {
            slotDidFree(by: operation)
        }
    }
}

/// A trampoline that starts operations on the current thread without recursion.
///
/// An operation that starts inline and finishes immediately makes others ready, which start inline and finish
/// immediately, and so on. A long chain of such nested calls would overflow the stack. So only the outermost call
/// starts operations; nested calls leave their scheduler to it.
enum StartTrampoline {
    /// The schedulers left by nested calls to the outermost call on this thread.
    private static let pending = ThreadPointer<[Scheduler]>()

    /// Whether the current thread is inside `run`.
    static var isActive: Bool { pending.current != nil }

    /// Starts the operations that a scheduler can start, including those left by nested calls.
    ///
    /// - Precondition: The thread is not inside `run`.
    static func run(_ scheduler: Scheduler, _ effects: QueueState.Effects) {
        var schedulers: [Scheduler] = []
        pending.provide(&schedulers) { schedulers in
            scheduler.perform(effects)
            if effects.hasMore { while scheduler.startNext() {} }
            while let next = schedulers.pointee.popLast() {
                while next.startNext() {}
            }
        }
    }

    /// Leaves a scheduler to the outermost call on this thread.
    static func postpone(_ scheduler: Scheduler) {
        guard let schedulers = pending.current, !schedulers.pointee.contains(where: { $0 === scheduler }) else { return }
        schedulers.pointee.append(scheduler)
    }
}
