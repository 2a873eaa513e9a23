import Foundation

/// The giving out of slots, and of operations to workers.
extension QueueState {
    private static let mostGrantsAtOnce = 64

    /// What remains to be done outside the lock, after it was held for a moment.
    struct Turn {
        enum Effect {
            /// There is a place in a queue that was full.
            case admit(LengthWaiter)
            /// The queue is empty.
            case signal(DispatchSemaphore)
            /// The operation waits at a closed gate.
            case tell(ScheduledOperation, gateOpensAt: UInt64)
            /// The queue needs more workers: their numbers, one bit each.
            case hire(UInt64, any FoundationBackedQueue)
        }

        /// An operation that has got a slot, and is to be started by the caller.
        var grant = QueueSlot.Occupant.nobody
        /// Whether the grant was found to be ready a moment ago.
        var isFresh = false
        /// Whether more can be started now.
        var hasMore = false
        var effects: [Effect] = []
        /// The queue, if it is empty now and may be released.
        var emptied: OperationQueue?

        var hasGrant: Bool {
            if case .nobody = grant { false } else { true }
        }
    }

    /// Gives out what slots there are after a change, and notes what else follows from it. Operations that need a worker
    /// are put aside for one; the first other one is the turn's grant.
    ///
    /// - Parameter mayStart: whether the caller can start operations; if not, it leaves that to somebody else.
    mutating func settle(_ turn: inout Turn, mayStart: Bool, aging: UInt64?, now: () -> UInt64) {
        if mayStart {
            for _ in 0..<Self.mostGrantsAtOnce {
                guard !turn.hasGrant, let index = nextIndex(aging: aging, now: now) else { break }
                grant(index, &turn)
            }
        }
        if length.hasWaiters { for waiter in length.admit() { turn.effects.append(.admit(waiter)) } }
        if !lanes.hostsToTell.isEmpty { noteGateNotices(&turn) }
        if runnableCount > 0 {
            let hired = crew.hire(for: runnableCount)
            if hired != 0, let queue { turn.effects.append(.hire(hired, queue)) }
        }
        turn.hasMore = turn.hasMore || hasMoreToStart
    }

    /// Gives a slot to an operation that has become ready, if nothing that is ready comes before it: then it need not
    /// be put into the lanes.
    mutating func startAtOnce(_ index: Int32, _ turn: inout Turn) -> Bool {
        guard running < limit, !isHeldBack, lanes.startAtOnce(index) else { return false }
        slots[Int(index)].flags.insert(.holdsHost)
        running += 1
        grant(index, &turn)
        turn.isFresh = turn.hasGrant
        return true
    }

    /// Puts an operation that has got a slot where it is started.
    private mutating func grant(_ index: Int32, _ turn: inout Turn) {
        uncount(index)
        let slot = slots[Int(index)]
        if case .scheduled = slot.occupant, !slot.flags.contains(.direct) {
            slots[Int(index)].stage = .granted
            // What only has to finish does not queue for a worker behind what may take long.
            if slot.flags.contains(.exempt) {
                lanes.laneLinks.prepend(index, to: &runnable)
            } else {
                lanes.laneLinks.append(index, to: &runnable)
            }
            runnableCount += 1
        } else {
            slots[Int(index)].stage = .running
            turn.grant = slot.occupant
        }
    }

    /// Whether nothing is started now but what only has to finish.
    private var isHeldBack: Bool { isSuspended || cancellations > 0 }

    /// Whether there is an operation that could be given a slot now.
    private var hasMoreToStart: Bool {
        guard exempts.isEmpty else { return true }
        if let barrier = epochs.dueBarrier, !isHeldBack || slots[Int(barrier)].flags.contains(.exempt) { return true }
        return lanes.hasStartable && running < limit && !isHeldBack
    }

    private mutating func nextIndex(aging: UInt64?, now: () -> UInt64) -> Int32? {
        if let index = lanes.laneLinks.popFirst(&exempts) { return index }
        if let barrier = epochs.dueBarrier {
            let isExempt = slots[Int(barrier)].flags.contains(.exempt)
            if isExempt || !isHeldBack {
                epochs.takeDueBarrier()
                if !isExempt { running += 1 }
                return barrier
            }
        }
        guard lanes.hasStartable, running < limit, !isHeldBack else { return nil }
        if let aging, lanes.isMixed { lanes.promote(now: now(), interval: aging) }
        guard let index = lanes.pop() else { return nil }
        slots[Int(index)].flags.insert(.holdsHost)
        running += 1
        return index
    }

    /// The next operations to be told, outside the lock, that they wait at a closed gate.
    private mutating func noteGateNotices(_ turn: inout Turn) {
        for _ in 0..<Self.mostGrantsAtOnce {
            guard let (index, deadline) = lanes.nextToBeTold() else { return }
            if case .scheduled(let operation) = slots[Int(index)].occupant {
                turn.effects.append(.tell(operation, gateOpensAt: deadline))
            }
        }
        turn.hasMore = true
    }

    /// The next operation for a worker. With none the worker is idle, or, unless it may stay, no longer there.
    mutating func next(for worker: QueueWorker, mayStay: Bool) -> ScheduledOperation? {
        crew.release(worker.number)
        if let index = worker.current?.queueIndex, index >= 0, slots[Int(index)].worker == worker.number {
            slots[Int(index)].worker = nil
        }
        guard let index = lanes.laneLinks.popFirst(&runnable),
            case .scheduled(let operation) = slots[Int(index)].occupant
        else {
            if !mayStay { crew.dismiss(worker.number) }
            return nil
        }
        runnableCount -= 1
        slots[Int(index)].stage = .running
        slots[Int(index)].worker = worker.number
        crew.occupy(worker.number)
        return operation
    }
}
