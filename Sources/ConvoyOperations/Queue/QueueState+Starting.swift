import Foundation

/// Methods that grant slots to operations.
extension QueueState {
    /// The actions that remain to be performed outside the lock after a change.
    struct Effects {
        enum Effect {
            /// Resume a caller that waited for room in the queue.
            case admit(CapacityWaiter)
            /// Signal that the queue is empty.
            case signal(DispatchSemaphore)
            /// Report to the operation that it waits at a closed gate.
            case reportGate(ScheduledOperation, opensAt: UInt64)
            /// Set the timer of a host, or of all hosts if nil.
            case setTimer(String?)
            /// Let a redirected operation continue.
            case goOn(@Sendable () -> Void)
            /// Release the continuation of a redirected operation.
            case release(@Sendable () -> Void)
        }

        /// An operation that was granted a slot, to be started by the caller.
        var grant: ScheduledOperation?
        /// The queue on whose dispatch queue the granted operation must be started; nil to start it inline.
        var startingQueue: RequestOperationQueue?
        /// The slot of an operation that has become ready, and waits unless it is granted a slot now.
        var ready: Int32?
        /// Whether more operations can be started now.
        var hasMore = false
        private(set) var effects: [Effect] = []
        /// The queue, if it is now empty and may be released.
        var emptied: OperationQueue?

        mutating func add(_ effect: Effect) { effects.append(effect) }
    }

    /// Grants a free slot after a change, and records all further consequences.
    ///
    /// - Parameter mayStart: Whether the caller can start operations; if not, the start loop further up its stack
    ///   starts them.
    mutating func settle(_ effects: inout Effects, mayStart: Bool) {
        continueRedirected(&effects)
        if mayStart, let index = nextIndex() { grant(index, &effects) }
        if let index = effects.ready { reportWait(of: index) }
        for waiter in capacity.admitWaiters() { effects.add(.admit(waiter)) }
        reportGates(&effects)
        effects.hasMore = effects.hasMore || hasMoreToStart
    }

    /// Passes an operation with a granted slot to the caller.
    private mutating func grant(_ index: Int32, _ effects: inout Effects) {
        uncount(index)
        effects.grant = slots[Int(index)].operation
        if slots[Int(index)].flags.contains(.direct) {
            slots[Int(index)].stage = .running
        } else {
            slots[Int(index)].stage = .granted
            effects.startingQueue = queue
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

    /// Whether any operation could be granted a slot now.
    private var hasMoreToStart: Bool {
        guard exempts.isEmpty, slotless.isEmpty || isHeldBack else { return true }
        if let barrier = epochs.dueBarrier, !isHeldBack || slots[Int(barrier)].flags.contains(.exempt) { return true }
        return !isHeldBack && running < limit && lanes.hasStartable
    }

    private mutating func nextIndex() -> Int32? {
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
        guard running < limit, let index = lanes.pop() else { return nil }
        slots[Int(index)].flags.insert(.holdsHost)
        running += 1
        askForAnswer(index)
        return index
    }

    /// Makes an operation report when its host answers, if the host has refused connections.
    func askForAnswer(_ index: Int32) {
        if lanes.reportsAnswer(index) { slots[Int(index)].operation?.reportsAnswer = true }
    }

    /// Records the operations to which a closed gate must be reported, and the timers that must be set.
    private mutating func reportGates(_ effects: inout Effects) {
        guard !lanes.gates.isEmpty else { return }
        for name in lanes.gates.wakes { effects.add(.setTimer(name)) }
        for index in lanes.gates.waiting {
            let slot = slots[Int(index)]
            guard slot.stage == .ready || slot.flags.contains(.redirected), let operation = slot.operation else { continue }
            effects.add(.reportGate(operation, opensAt: lanes.gateDeadline(of: index)))
        }
        lanes.gates.wakes = []
        lanes.gates.waiting = []
    }
}
