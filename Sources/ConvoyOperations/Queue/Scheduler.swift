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
    let state = ContendedLock(QueueState())
    let clock: any SchedulingClock
    private let isSerial = Atomic<Bool>(false)
    private let agingNanoseconds = Atomic<UInt64>(30_000_000_000)
    /// Whether a start rate is set.
    private let isPaced = Atomic<Bool>(false)
    private let progressReference = AtomicOnce<QueueProgress>()
    private let timers = Locked<[TimerPurpose: SetTimer]>([:])

    init(clock: any SchedulingClock) {
        self.clock = clock
    }

    deinit {
        for set in timers.withLock({ $0 }).values { set.timer.cancel() }
    }

    // MARK: Settings

    /// Whether operations run serially, and therefore in the promised order.
    var isOneAtATime: Bool {
        get { isSerial.load(ordering: .relaxed) }
        set { isSerial.store(newValue, ordering: .relaxed) }
    }

    /// The aging interval in nanoseconds; nil for no aging.
    var aging: UInt64? {
        get {
            let nanoseconds = agingNanoseconds.load(ordering: .relaxed)
            return nanoseconds == 0 ? nil : nanoseconds
        }
        set { agingNanoseconds.store(newValue ?? 0, ordering: .relaxed) }
    }

    /// The progress, created on first use: until then no total can have been set.
    var progress: QueueProgress {
        if let progress = progressReference.object { return progress }
        let made = QueueProgress()
        return progressReference.set(made) ? made : progressReference.object ?? made
    }

    /// Returns the time at which an operation begins to wait, or starts. Returns 0, without reading the clock, if
    /// neither aging nor a start rate is set.
    private func stamp() -> UInt64 { aging == nil && !isPaced.load(ordering: .relaxed) ? 0 : clock.now }

    // MARK: Adding

    func insert(_ operation: Operation, flags: QueueSlot.Flags, into queue: any FoundationBackedQueue) {
        guard let scheduled = operation as? ScheduledOperation else {
            return insertForeign(operation, flags: flags, into: queue)
        }
        // From here on the operation's changes are reported to this scheduler. `catchUp` handles earlier changes.
        let flags = scheduled.takesSlot ? flags : flags.union(.slotless)
        guard scheduled.join(self) else { return giveUpPlace(flags) }
        let snapshot = ReadinessSnapshot(of: scheduled, inSerialQueue: isOneAtATime)
        let (turn, mayStart) = visit { state, mayStart, turn in
            state.insert(scheduled, flags: flags, into: queue)
            state.makeReady(scheduled.queueIndex, snapshot, mayStart: mayStart, now: stamp, &turn)
        }
        if scheduled.isFinished { letGo(of: scheduled) }
        carryOut(turn, mayStart: mayStart)
        if !turn.isFresh { catchUp(on: scheduled, since: snapshot) }
        if scheduled.hasConnections { scheduled.checkDependencies() }
    }

    private func insertForeign(
        _ operation: Operation, flags: QueueSlot.Flags, into queue: any FoundationBackedQueue
    ) {
        let snapshot = ReadinessSnapshot(ofForeign: operation, inSerialQueue: isOneAtATime)
        let member = ExternalOperation(operation, in: queue, of: self, isReady: snapshot.isReady)
        var isNew = false
        let (turn, mayStart) = visit { state, mayStart, turn in
            isNew = state.insert(member, flags: flags, into: queue)
            if isNew { state.makeReady(member.queueIndex, snapshot, mayStart: mayStart, now: stamp, &turn) }
        }
        if isNew {
            if snapshot.isReady { member.watch() } else { member.waitForReadiness() }
        }
        carryOut(turn, mayStart: mayStart)
        if !isNew { giveUpPlace(flags) }
    }

    private func giveUpPlace(_ flags: QueueSlot.Flags) {
        guard flags.contains(.reserved) else { return }
        change { state in state.length.useReservation() }
    }

    /// Adds an operation that runs after all operations in the queue and before all later ones.
    func insertBarrier(_ operation: ScheduledOperation, into queue: any FoundationBackedQueue) {
        guard operation.join(self) else { return }
        change { $0.insert(operation, flags: .barrier, into: queue) }
    }

    // MARK: Changes

    func readinessDidChange(of operation: ScheduledOperation) {
        let snapshot = ReadinessSnapshot(of: operation, inSerialQueue: isOneAtATime)
        guard snapshot.isReady else { return }
        let (turn, mayStart) = visit { state, mayStart, turn in
            state.makeReady(operation.queueIndex, snapshot, mayStart: mayStart, now: stamp, &turn)
        }
        carryOut(turn, mayStart: mayStart)
        if !turn.isFresh { catchUp(on: operation, since: snapshot) }
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
            state.withLock { $0.setLevel(level, of: operation.queueIndex, now: stamp) }
            // Two concurrent changes may arrive in the wrong order.
        } while level != PriorityLevel.level(of: operation, inSerialQueue: isOneAtATime)
    }

    func slotDidFree(by operation: ScheduledOperation) {
        let (turn, mayStart) = visit { state, _, turn in state.giveBack(operation.queueIndex, &turn) }
        carryOut(turn, mayStart: mayStart)
        // The operation may have become ready again before the slot was released, which is reported only here.
        operation.readinessDidChange()
    }

    func operationDidFinish(_ operation: ScheduledOperation) {
        remove { operation.queueIndex }
    }

    /// Removes an operation that has finished, even if it never posts its end.
    private func letGo(of operation: ScheduledOperation) {
        operation.leave()
        // Otherwise, its dependents would not be notified.
        if !operation.reportsItsEnd { operation.executionDidFinish() }
        operationDidFinish(operation)
    }

    private func remove(_ index: () -> Int32) {
        var flags: QueueSlot.Flags?
        let (turn, mayStart) = visit { state, _, turn in flags = state.remove(index(), now: stamp, &turn) }
        if let flags, !flags.contains(.barrier) { progressReference.object?.countOne() }
        carryOut(turn, mayStart: mayStart)
    }

    // MARK: Redirects

    /// Moves an executing operation to the host that it was redirected to. If that host has no free slot, or its gate
    /// is closed, the operation waits, with a slot of the queue but without a host slot.
    ///
    /// - Parameters:
    ///   - isCurrent: A closure that returns whether the operation is still doing the work that was redirected. It is
    ///     evaluated under the lock: an operation that is paused or ends later releases the new slot.
    ///   - goOn: The closure called on any thread once a slot is available; not called if the operation has stopped.
    func redirect(
        _ operation: ScheduledOperation, to host: HostKey, if isCurrent: () -> Bool,
        then goOn: @escaping @Sendable () -> Void
    ) {
        var mayGoOn = false
        let (turn, mayStart) = visit { state, _, _ in
            guard isCurrent() else { return }
            mayGoOn = state.redirect(operation.queueIndex, to: host, then: goOn)
        }
        carryOut(turn, mayStart: mayStart)
        if mayGoOn { goOn() }
    }

    /// Returns the host whose limit and gate currently apply to an operation.
    func host(of operation: ScheduledOperation) -> HostKey? { state.withLock { $0.host(of: operation.queueIndex) } }

    // MARK: Gates

    /// Closes the gate of a host until the clock reaches `deadline` (nanoseconds). A gate that is already closed for
    /// longer is unchanged.
    func closeGate(of host: HostKey, until deadline: UInt64) {
        guard deadline > clock.now else { return }
        // This also notifies the operations that are waiting now.
        changeGate(of: host) { _ = $0.closeGate(of: host, until: deadline) }
    }

    /// Closes the gate of a host that has refused a connection. From the deadline on, the gate lets operations through
    /// one at a time, until the host has answered. If the host has refused for longer than `patience` (nanoseconds),
    /// its gate is opened.
    func closeGateAfterRefusal(of host: HostKey, until deadline: UInt64, patience: UInt64) {
        let now = clock.now
        let deadline = max(deadline, now &+ 1)
        changeGate(of: host) {
            _ = $0.closeGateAfterRefusal(of: host, until: deadline, patience: patience, now: now)
        }
    }

    /// Records that a host which had refused connections has answered.
    func noteAnswer(of host: HostKey) {
        changeGate(of: host) { $0.noteAnswer(of: host) }
    }

    /// Opens the gate of a host. Returns false if it was open.
    func openGate(of host: HostKey) -> Bool {
        var wasClosed = false
        changeGate(of: host) { wasClosed = $0.openGate(of: host) }
        return wasClosed
    }

    func openAllGates() {
        change { $0.lanes.openAllGates() }
        for (purpose, set) in timers.withLock({ $0 }) { setTimer(for: purpose, of: set.host) }
    }

    private func changeGate(of host: HostKey, _ change: (inout ReadyLanes) -> Void) {
        self.change { change(&$0.lanes) }
        setTimer(for: .gate(ObjectIdentifier(host)), of: host)
    }

    // MARK: Start rates

    /// Changes a start rate, passing the current time in nanoseconds.
    func changePace(_ change: (inout ReadyLanes, UInt64) -> Void) {
        let now = clock.now
        self.change { state in
            change(&state.lanes, now)
            isPaced.store(state.lanes.isPaced, ordering: .relaxed)
        }
    }

    // MARK: Timers

    private enum TimerPurpose: Hashable {
        /// Opens the gate of a host.
        case gate(ObjectIdentifier)
        /// Lets a host, or all hosts if nil, start operations again.
        case starts(ObjectIdentifier?)
    }

    private struct SetTimer {
        let host: HostKey?
        let deadline: UInt64
        let timer: any ClockTimer
    }

    /// Sets a timer for the time currently required by the state, or cancels it. Must be called after each change of
    /// that time: the last call then uses the latest state.
    private func setTimer(for purpose: TimerPurpose, of host: HostKey?) {
        timers.withLock { timers in
            let deadline = state.withLock { state in
                if case .gate = purpose {
                    host.flatMap { state.lanes.gateDeadline(of: $0) }
                } else {
                    state.lanes.startDeadline(of: host)
                }
            }
            guard timers[purpose]?.deadline != deadline else { return }
            timers.removeValue(forKey: purpose)?.timer.cancel()
            guard let deadline else { return }
            let timer = clock.schedule(at: deadline) { [weak self] in self?.timerDidFire(purpose, host, deadline) }
            timers[purpose] = SetTimer(host: host, deadline: deadline, timer: timer)
        }
    }

    private func timerDidFire(_ purpose: TimerPurpose, _ host: HostKey?, _ deadline: UInt64) {
        let now = max(clock.now, deadline)
        change { state in
            switch (purpose, host) {
            case (.gate, let host?): state.lanes.openGate(of: host, dueAt: now)
            case (.gate, nil): break
            case (.starts, let host): state.lanes.resumeStarts(of: host, at: now)
            }
        }
        setTimer(for: purpose, of: host)
    }

    // MARK: Starting

    /// Changes the state, and starts all operations that can then start.
    func change(_ change: (inout QueueState) -> Void) {
        let (turn, mayStart) = visit { state, _, _ in change(&state) }
        carryOut(turn, mayStart: mayStart)
    }

    /// Changes the state, and grants the slots that are then free.
    ///
    /// - Returns: The actions to perform outside the lock, and whether this thread may start operations.
    @inline(__always)
    private func visit(
        _ change: (inout QueueState, _ mayStart: Bool, inout QueueState.Effects) -> Void
    ) -> (turn: QueueState.Effects, mayStart: Bool) {
        let mayStart = !StartTrampoline.isActive
        var turn = QueueState.Effects()
        state.withLock { state in
            change(&state, mayStart, &turn)
            state.settle(&turn, mayStart: mayStart, aging: aging, now: stamp)
        }
        return (turn, mayStart)
    }

    private func carryOut(_ turn: QueueState.Effects, mayStart: Bool) {
        if !mayStart {
            perform(turn)
            if turn.hasMore { StartTrampoline.postpone(self) }
        } else if turn.hasMore || turn.hasGrant {
            StartTrampoline.run(self, turn)
        } else {
            perform(turn)
        }
    }

    /// Starts the next operations that can start. Returns whether more can be started.
    func startNext() -> Bool {
        var turn = QueueState.Effects()
        state.withLock { $0.settle(&turn, mayStart: true, aging: aging, now: stamp) }
        perform(turn)
        return turn.hasMore
    }

    func perform(_ turn: QueueState.Effects) {
        for effect in turn.effects {
            switch effect {
            case .admit(let waiter): waiter.resume(admitted: true)
            case .signal(let semaphore): semaphore.signal()
            case .resumeStarts(let host): setTimer(for: .starts(host.map(ObjectIdentifier.init)), of: host)
            case .goOn(let goOn): goOn()
            case .tell, .release: break
            }
        }
        switch turn.grant {
        case .none: break
        case .scheduled(let operation):
            if let queue = turn.startingQueue {
                begin(operation, onDispatchQueueOf: queue)
            } else if turn.isFresh {
                operation.start()
            } else {
                begin(operation)
            }
        case .foreign(let member): member.begin()
        }
        guard !turn.effects.isEmpty else { return }
        for case .tell(let operation, let deadline) in turn.effects { operation.willWaitAtGate(until: deadline) }
    }

    /// Starts an operation that was granted a slot on the dispatch queue of its queue.
    ///
    /// To Foundation, the start is an operation of the queue, so that `OperationQueue.current` is correct in the code
    /// that it runs.
    private func begin(_ operation: ScheduledOperation, onDispatchQueueOf queue: any FoundationBackedQueue) {
        let start: @Sendable () -> Void = { [self] in
            if state.withLock({ $0.beginGranted(operation) }) { begin(operation) }
        }
        #if DEBUG
        if let threads = Simulation.threads { return threads.perform(start) }
        #endif
        queue.startInFoundation(BlockOperation(block: start))
    }

    /// Starts an operation that was granted a slot after waiting.
    func begin(_ operation: ScheduledOperation) {
        guard !operation.mustPostElsewhere else {
            return BlockingWorkers.shared.perform { [self] in begin(operation) }
        }
        if operation.isFinished {
            letGo(of: operation)
        } else if operation.isReady {
            operation.start()
            if !operation.reportsItsEnd { FinishObserver.begin(on: operation) }
        } else {
            slotDidFree(by: operation)
        }
    }
}

extension Scheduler: ForeignScheduler {
    func foreignDidBecomeReady(_ member: ExternalOperation) {
        let snapshot = ReadinessSnapshot(ofReadyForeign: member.operation, inSerialQueue: isOneAtATime)
        let (turn, mayStart) = visit { state, mayStart, turn in
            state.makeReady(member.queueIndex, snapshot, mayStart: mayStart, now: stamp, &turn)
        }
        carryOut(turn, mayStart: mayStart)
    }

    func foreignDidFinish(_ member: ExternalOperation) {
        remove { member.queueIndex }
    }

    func giveBack(by member: ExternalOperation) {
        let (turn, mayStart) = visit { state, _, turn in state.giveBack(member.queueIndex, &turn) }
        carryOut(turn, mayStart: mayStart)
    }
}
