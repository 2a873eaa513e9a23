import Foundation

/// Methods that grant slots to operations, and assign operations to workers.
extension QueueState {
    private static let mostGrantsAtOnce = 64

    /// The actions that remain to be performed outside the lock after a change.
    struct Effects {
        enum Effect {
            /// Resume a caller that waited for room in the queue.
            case admit(CapacityWaiter)
            /// Signal that the queue is empty.
            case signal(DispatchSemaphore)
            /// Report to the operation that it waits at a closed gate.
            case tell(ScheduledOperation, gateOpensAt: UInt64)
            /// Let a host, or all hosts if nil, start operations again at the given time.
            case resumeStarts(HostKey?)
            /// Create more workers with the given numbers, one bit each.
            case hire(UInt64, any FoundationBackedQueue)
            /// Let a redirected operation continue.
            case goOn(@Sendable () -> Void)
            /// Release the continuation of a redirected operation.
            case release(@Sendable () -> Void)
        }

        /// An operation that was granted a slot, to be started by the caller.
        var grant = QueueSlot.Occupant.none
        /// Whether the granted operation was found ready just now, so that it does not have to be checked again.
        var isFresh = false
        /// Whether more operations can be started now.
        var hasMore = false
        var effects: [Effect] = []
        /// The queue, if it is now empty and may be released.
        var emptied: OperationQueue?

        var hasGrant: Bool {
            if case .none = grant { false } else { true }
        }
    }

    /// Grants the free slots after a change, and records all further consequences. Operations that need a worker are
    /// queued for one; the first operation that needs none becomes the turn's grant.
    ///
    /// - Parameter mayStart: Whether the caller can start operations; if not, the start loop further up its stack
    ///   starts them.
    mutating func settle(_ turn: inout Effects, mayStart: Bool, aging: UInt64?, now: () -> UInt64) {
        if lanes.mayHaveRedirected { endRedirects(&turn) }
        if mayStart {
            for _ in 0..<Self.mostGrantsAtOnce {
                guard !turn.hasGrant, let index = nextIndex(aging: aging, now: now) else { break }
                grant(index, &turn)
            }
        }
        if length.hasWaiters { for waiter in length.admit() { turn.effects.append(.admit(waiter)) } }
        if !lanes.hostsToTell.isEmpty { noteGateNotices(&turn) }
        if !lanes.pacing.wakes.isEmpty {
            for host in lanes.pacing.wakes { turn.effects.append(.resumeStarts(host)) }
            lanes.pacing.wakes = []
        }
        if runnableCount > 0 {
            let hired = workers.hire(for: runnableCount)
            if hired != 0, let queue { turn.effects.append(.hire(hired, queue)) }
        }
        turn.hasMore = turn.hasMore || hasMoreToStart
    }

    /// Grants a slot directly to an operation that has become ready, bypassing the lanes, if no other ready operation
    /// precedes it.
    mutating func startAtOnce(_ index: Int32, now: () -> UInt64, _ turn: inout Effects) -> Bool {
        guard running < limit, !isHeldBack, lanes.startAtOnce(index, now: now) else { return false }
        slots[Int(index)].flags.insert(.holdsHost)
        running += 1
        askForAnswer(index)
        grant(index, &turn)
        turn.isFresh = turn.hasGrant
        return true
    }

    /// Passes an operation with a granted slot to a worker or to the caller.
    private mutating func grant(_ index: Int32, _ turn: inout Effects) {
        uncount(index)
        let slot = slots[Int(index)]
        if case .scheduled = slot.occupant, !slot.flags.contains(.direct) {
            slots[Int(index)].stage = .granted
            // An operation that only has to finish precedes others, which may take a long time.
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

    /// Whether only operations that merely have to finish may start now.
    var isHeldBack: Bool { isSuspended || cancellations > 0 }

    /// Whether any operation could be granted a slot now.
    private var hasMoreToStart: Bool {
        guard exempts.isEmpty, slotless.isEmpty || isHeldBack else { return true }
        if let barrier = epochs.dueBarrier, !isHeldBack || slots[Int(barrier)].flags.contains(.exempt) { return true }
        return !isHeldBack && lanes.hasStartable && running < limit
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
        guard !isHeldBack else { return nil }
        if let index = lanes.laneLinks.popFirst(&slotless) { return index }
        guard lanes.hasStartable, running < limit else { return nil }
        if let aging, lanes.isMixed { lanes.promote(now: now(), interval: aging) }
        guard let index = lanes.pop(now: now) else { return nil }
        slots[Int(index)].flags.insert(.holdsHost)
        running += 1
        askForAnswer(index)
        return index
    }

    /// Makes an operation report when its host answers, if the host has refused connections.
    func askForAnswer(_ index: Int32) {
        guard lanes.reportsAnswer(index), case .scheduled(let operation) = slots[Int(index)].occupant else { return }
        operation.reportsAnswer = true
    }

    /// Records the next operations to which a closed gate must be reported outside the lock.
    private mutating func noteGateNotices(_ turn: inout Effects) {
        for _ in 0..<Self.mostGrantsAtOnce {
            guard let (index, deadline) = lanes.nextToBeTold() else { return }
            if case .scheduled(let operation) = slots[Int(index)].occupant {
                turn.effects.append(.tell(operation, gateOpensAt: deadline))
            }
        }
        turn.hasMore = true
    }

    /// Returns the next operation for a worker, if any. Otherwise the worker becomes idle, or is dismissed unless it
    /// may stay.
    mutating func next(for worker: QueueWorker, mayStay: Bool) -> ScheduledOperation? {
        workers.release(worker.number)
        if let index = worker.current?.queueIndex, index >= 0, slots[Int(index)].worker == worker.number {
            slots[Int(index)].worker = nil
        }
        guard let index = lanes.laneLinks.popFirst(&runnable),
            case .scheduled(let operation) = slots[Int(index)].occupant
        else {
            if !mayStay { workers.dismiss(worker.number) }
            return nil
        }
        runnableCount -= 1
        slots[Int(index)].stage = .running
        slots[Int(index)].worker = worker.number
        workers.occupy(worker.number)
        return operation
    }
}
