import ConvoySupport
import Foundation
import Synchronization

/// What goes on inside a ``RequestOperationQueue``: what happens to an operation between its adding and its end.
///
/// An operation refers to the scheduler as long as it lives, which costs nobody anything, and so finds it without a
/// lock. The queue itself, which a user may count on to be released, is kept by the scheduler for as long as it has
/// operations.
///
/// Every change goes through the lock once, and then gives out the slots that it made free.
final class Scheduler: @unchecked Sendable {
    let state = ContendedLock(QueueState())
    let clock: any SchedulingClock
    private let isSerial = Atomic<Bool>(false)
    private let agingNanoseconds = Atomic<UInt64>(30_000_000_000)
    private let progressReference = OnceReference<QueueProgress>()

    init(clock: any SchedulingClock) {
        self.clock = clock
    }

    // MARK: Settings

    /// Whether operations run one at a time, and so in the order that was promised.
    var isOneAtATime: Bool {
        get { isSerial.load(ordering: .relaxed) }
        set { isSerial.store(newValue, ordering: .relaxed) }
    }

    /// Nanoseconds, nil for no aging.
    var aging: UInt64? {
        get {
            let nanoseconds = agingNanoseconds.load(ordering: .relaxed)
            return nanoseconds == 0 ? nil : nanoseconds
        }
        set { agingNanoseconds.store(newValue ?? 0, ordering: .relaxed) }
    }

    /// Made when somebody asks for it: until then nobody can have set a total.
    var progress: QueueProgress {
        if let progress = progressReference.object { return progress }
        let made = QueueProgress()
        return progressReference.set(made) ? made : progressReference.object ?? made
    }

    /// The time at which an operation begins to wait. Not asked of the clock if nothing ages.
    private var stamp: UInt64 { aging == nil ? 0 : clock.now }

    // MARK: Adding

    func insert(_ operation: Operation, flags: QueueSlot.Flags, into queue: any FoundationBackedQueue) {
        guard let scheduled = operation as? ScheduledOperation else {
            return insertForeign(operation, flags: flags, into: queue)
        }
        // From here on its changes come to this scheduler; those that come too early are caught up below.
        guard scheduled.join(self) else { return giveUpPlace(flags) }
        let examination = Examination(of: scheduled, inSerialQueue: isOneAtATime)
        state.withLock { state in
            if flags.contains(.reserved) { state.length.useReservation() }
            state.insert(scheduled, examination, flags: flags, into: queue, now: stamp)
        }
        if !examination.isReady { readinessDidChange(of: scheduled) }
        if scheduled.isFinished { operationDidFinish(scheduled) }
    }

    private func insertForeign(
        _ operation: Operation, flags: QueueSlot.Flags, into queue: any FoundationBackedQueue
    ) {
        let examination = Examination(of: operation, inSerialQueue: isOneAtATime)
        let member = ForeignMember(operation, in: queue, of: self, isReady: examination.isReady)
        let (isNew, admitted) = state.withLock { state in
            if flags.contains(.reserved) { state.length.useReservation() }
            let isNew = state.insert(member, examination, flags: flags, into: queue, now: stamp)
            return (isNew, isNew ? [] : state.length.admit())
        }
        for waiter in admitted { waiter.resume(admitted: true) }
        guard isNew else { return }
        if examination.isReady { member.watch() } else { member.waitInLobby() }
    }

    private func giveUpPlace(_ flags: QueueSlot.Flags) {
        guard flags.contains(.reserved) else { return }
        let admitted = state.withLock { state in
            state.length.useReservation()
            return state.length.admit()
        }
        for waiter in admitted { waiter.resume(admitted: true) }
    }

    /// Adds an operation that runs after all that are in the queue and before all that come later.
    func insertBarrier(_ operation: ScheduledOperation, into queue: any FoundationBackedQueue) {
        guard operation.join(self) else { return }
        state.withLock { $0.insertBarrier(operation, into: queue) }
        startReady()
    }

    // MARK: Changes

    func readinessDidChange(of operation: ScheduledOperation) {
        let examination = Examination(of: operation, inSerialQueue: isOneAtATime)
        guard examination.isReady else { return }
        state.withLock { $0.makeReady(operation.queueIndex, examination, now: stamp) }
        startReady()
    }

    func priorityDidChange(of operation: ScheduledOperation) {
        var level: Int
        repeat {
            level = PriorityLevel.level(of: operation, inSerialQueue: isOneAtATime)
            state.withLock { $0.setLevel(level, of: operation.queueIndex, now: stamp) }
            // Two changes at a time may arrive in the wrong order.
        } while level != PriorityLevel.level(of: operation, inSerialQueue: isOneAtATime)
    }

    func slotDidFree(by operation: ScheduledOperation) {
        state.withLock { $0.giveBack(operation.queueIndex) }
        // It may have become ready again before the slot was given back, and nobody else would say so.
        readinessDidChange(of: operation)
        startReady()
    }

    func operationDidFinish(_ operation: ScheduledOperation) {
        finish { $0.remove(operation.queueIndex, now: stamp) }
    }

    private func finish(_ remove: (inout QueueState) -> QueueState.Removed?) {
        guard let removed = state.withLock({ remove(&$0) }) else { return }
        if !removed.slot.flags.contains(.barrier) { progressReference.object?.countOne() }
        for waiter in removed.admitted { waiter.resume(admitted: true) }
        for semaphore in removed.idle { semaphore.signal() }
        startReady()
    }

    // MARK: Gates

    /// Lets the operations for a host that wait at its gate not start until the clock shows `deadline` (nanoseconds).
    /// A gate that is closed for longer stays so.
    func closeGate(of host: HostKey, until deadline: UInt64) {
        guard deadline > clock.now, state.withLock({ $0.lanes.closeGate(of: host, until: deadline) }) else { return }
        clock.schedule(at: deadline) { [weak self] in
            guard let self else { return }
            let now = max(self.clock.now, deadline)
            self.state.withLock { $0.lanes.openGate(of: host, dueAt: now) }
            self.startReady()
        }
        // Who waits now is told.
        startReady()
    }

    // MARK: Starting

    /// Starts whatever can be started.
    func startReady() {
        StartLoop.run(self)
    }

    /// Starts one operation, or hands some to workers. False if there is nothing left to start.
    func startNext() -> Bool {
        let (grant, spawn, again, admitted, notices, queue) = state.withLock { state in
            let (grant, spawn, again) = state.nextGrant(aging: aging, clock: clock)
            let notices = state.nextGateNotices()
            let admitted = state.length.hasWaiters ? state.length.admit() : []
            return (grant, spawn, again, admitted, notices, spawn > 0 ? state.queue : nil)
        }
        for waiter in admitted { waiter.resume(admitted: true) }
        for _ in 0..<spawn { queue?.startInFoundation(QueueWorker(of: self)) }
        switch grant {
        case .scheduled(let operation): begin(operation)
        case .foreign(let member): member.begin()
        case nil: break
        }
        for (operation, deadline) in notices { operation.willWaitAtGate(until: deadline) }
        return again || !notices.isEmpty
    }

    /// The next operation for a worker.
    func next(for worker: QueueWorker) -> ScheduledOperation? {
        let operation = state.withLock { $0.next(for: worker) }
        worker.current = operation
        return operation
    }

    /// Starts an operation that holds a slot.
    func begin(_ operation: ScheduledOperation) {
        if operation.isFinished {
            operationDidFinish(operation)
        } else if operation.isReady {
            operation.start()
        } else {
            slotDidFree(by: operation)
        }
    }
}

extension Scheduler: ForeignScheduler {
    func foreignDidBecomeReady(_ member: ForeignMember) {
        let examination = Examination(ofReady: member.operation, inSerialQueue: isOneAtATime)
        state.withLock { $0.makeReady(member.queueIndex, examination, now: stamp) }
        startReady()
    }

    func foreignDidFinish(_ member: ForeignMember) {
        finish { $0.remove(member.queueIndex, now: stamp) }
    }

    func giveBack(by member: ForeignMember) {
        state.withLock { $0.giveBack(member.queueIndex) }
        startReady()
    }
}
