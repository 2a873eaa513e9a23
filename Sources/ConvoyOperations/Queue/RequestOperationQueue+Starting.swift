import ConvoySupport
import Foundation

/// What happens to an operation between its adding and its end. Every change goes through the lock
/// once, and then gives out the slots that it made free.
extension RequestOperationQueue {
    // MARK: Adding

    func insert(_ operation: Operation, flags: QueueSlot.Flags) {
        guard let scheduled = operation as? ScheduledOperation else {
            return insertForeign(operation, flags: flags)
        }
        // From here on its changes come to this queue; those that come too early are caught up below.
        guard scheduled.join(self) else { return giveUpPlace(flags) }
        let examination = Examination(of: scheduled, inSerialQueue: isOneAtATime)
        state.withLock { state in
            if flags.contains(.reserved) { state.length.useReservation() }
            state.insert(scheduled, examination, flags: flags, now: stamp)
        }
        if !examination.isReady { readinessDidChange(of: scheduled) }
        if scheduled.isFinished { operationDidFinish(scheduled) }
    }

    private func insertForeign(_ operation: Operation, flags: QueueSlot.Flags) {
        let examination = Examination(of: operation, inSerialQueue: isOneAtATime)
        let member = ForeignMember(operation, in: self, isReady: examination.isReady)
        let (isNew, admitted) = state.withLock { state in
            if flags.contains(.reserved) { state.length.useReservation() }
            let isNew = state.insert(member, examination, flags: flags, now: stamp)
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

    /// The time at which an operation begins to wait. Not asked of the clock if nothing ages.
    private var stamp: UInt64 { aging == nil ? 0 : clock.now }

    // MARK: Changes

    func readinessDidChange(of operation: ScheduledOperation) {
        let examination = Examination(of: operation, inSerialQueue: isOneAtATime)
        guard examination.isReady else { return }
        state.withLock { $0.makeReady(operation.queueIndex, examination, now: stamp) }
        startReady()
    }

    func foreignDidBecomeReady(_ member: ForeignMember) {
        let examination = Examination(ofReady: member.operation, inSerialQueue: isOneAtATime)
        state.withLock { $0.makeReady(member.queueIndex, examination, now: stamp) }
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

    func giveBack(by member: ForeignMember) {
        state.withLock { $0.giveBack(member.queueIndex) }
        startReady()
    }

    func operationDidFinish(_ operation: ScheduledOperation) {
        finish { $0.remove(operation.queueIndex, now: stamp) }
    }

    func foreignDidFinish(_ member: ForeignMember) {
        finish { $0.remove(member.queueIndex, now: stamp) }
    }

    private func finish(_ remove: (inout QueueState) -> QueueState.Removed?) {
        guard let removed = state.withLock({ remove(&$0) }) else { return }
        if !removed.slot.flags.contains(.barrier) { countAsFinished() }
        for waiter in removed.admitted { waiter.resume(admitted: true) }
        for semaphore in removed.idle { semaphore.signal() }
        startReady()
    }

    // MARK: Starting

    /// Starts whatever can be started.
    func startReady() {
        StartLoop.run(self)
    }

    /// Starts one operation, or hands some to workers. False if there is nothing left to start.
    func startNext() -> Bool {
        let (grant, spawn, again, admitted, notices) = state.withLock { state in
            let (grant, spawn, again) = state.nextGrant(aging: aging, clock: clock)
            let notices = state.nextGateNotices()
            return (grant, spawn, again, state.length.hasWaiters ? state.length.admit() : [], notices)
        }
        for waiter in admitted { waiter.resume(admitted: true) }
        for _ in 0..<spawn { startInFoundation(QueueWorker(of: self)) }
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
