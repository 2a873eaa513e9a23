import Foundation

/// Methods that grant slots to operations.
extension QueueState {
    private static let mostNoticesAtOnce = 64

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
            /// Let a redirected operation continue.
            case goOn(@Sendable () -> Void)
            /// Release the continuation of a redirected operation.
            case release(@Sendable () -> Void)
        }

        /// An operation that was granted a slot, to be started by the caller.
        var grant = QueueSlot.Occupant.none
        /// The queue on whose dispatch queue the granted operation must be started; nil to start it inline.
        var startingQueue: (any FoundationBackedQueue)?
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

    /// Grants a free slot after a change, and records all further consequences.
    ///
    /// - Parameter mayStart: Whether the caller can start operations; if not, the start loop further up its stack
    ///   starts them.
    mutating func settle(_ turn: inout Effects, mayStart: Bool, aging: UInt64?, now: () -> UInt64) {
        if lanes.mayHaveRedirected { endRedirects(&turn) }
        if mayStart, !turn.hasGrant, let index = nextIndex(aging: aging, now: now) { grant(index, &turn) }
        if length.hasWaiters { for waiter in length.admit() { turn.effects.append(.admit(waiter)) } }
        if !lanes.hostsToTell.isEmpty { noteGateNotices(&turn) }
        if !lanes.pacing.wakes.isEmpty {
            for host in lanes.pacing.wakes { turn.effects.append(.resumeStarts(host)) }
            lanes.pacing.wakes = []
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
        turn.isFresh = turn.startingQueue == nil
        return true
    }

    /// Passes an operation with a granted slot to the caller.
    private mutating func grant(_ index: Int32, _ turn: inout Effects) {
        uncount(index)
        let slot = slots[Int(index)]
        turn.grant = slot.occupant
        if case .scheduled = slot.occupant, !slot.flags.contains(.direct) {
            slots[Int(index)].stage = .granted
            turn.startingQueue = queue
        } else {
            slots[Int(index)].stage = .running
        }
    }

    /// Records that a thread is about to start an operation that was granted a slot. Returns false if the operation has
    /// lost the slot in the meantime, or another thread starts it.
    mutating func beginGranted(_ operation: ScheduledOperation) -> Bool {
        let index = operation.queueIndex
        guard index >= 0, slots[Int(index)].stage == .granted else { return false }
        slots[Int(index)].stage = .running
        return true
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
        for _ in 0..<Self.mostNoticesAtOnce {
            guard let (index, deadline) = lanes.nextToBeTold() else { return }
            if case .scheduled(let operation) = slots[Int(index)].occupant {
                turn.effects.append(.tell(operation, gateOpensAt: deadline))
            }
        }
        turn.hasMore = true
    }
}
