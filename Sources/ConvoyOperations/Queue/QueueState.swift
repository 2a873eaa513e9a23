import Foundation

/// The state that a ``Scheduler`` keeps under its lock: a value that calls no user code. It is noncopyable because the
/// compiler would otherwise copy it, with its lanes, for each query.
///
/// Each mutating call is short, and takes O(1), or O(log hosts) if it affects the lanes. `QueueState+Starting.swift`
/// grants the slots.
struct QueueState: ~Copyable {
    var slots: ContiguousArray<QueueSlot> = []
    private var free: ContiguousArray<Int32> = []
    private var lastNumber: UInt64 = 0
    /// Ready operations that are exempt from limits and suspension.
    var exempts = IndexLinkedLists.List()
    /// Ready operations that use no slot, and start unless the queue is suspended.
    var slotless = IndexLinkedLists.List()
    var epochs = BarrierEpochs()
    private var barriers = 0
    /// The continuations of operations that were redirected to a host without a free slot. They keep their slot of the
    /// queue.
    private var redirected: [Int32: @Sendable () -> Void] = [:]

    var lanes: ReadyQueue
    var capacity = QueueCapacity()
    var limit = Int.max
    var isSuspended = false
    /// The number of calls in progress that cancel all operations, or those in a cycle. No slot is granted until they
    /// have ended.
    var cancellations = 0
    var idleWaiters: [DispatchSemaphore] = []
    /// The operations of other classes in the queue.
    var externals: Set<ObjectIdentifier> = []
    /// The queue, retained while it is not empty.
    private(set) var queue: RequestOperationQueue?
    /// The number of operations that hold a slot.
    var running = 0

    /// The number of operations in the queue, without barriers.
    private(set) var count = 0
    var isEmpty: Bool { count == 0 && barriers == 0 }

    init(clock: any SchedulingClock) { lanes = ReadyQueue(clock: clock) }

    // MARK: Adding

    /// Adds an operation.
    mutating func insert(
        _ operation: ScheduledOperation, flags: QueueSlot.Flags, into queue: RequestOperationQueue
    ) {
        if self.queue == nil { self.queue = queue }
        let index = free.popLast() ?? Int32(slots.count)
        if Int(index) == slots.count {
            slots.append(QueueSlot())
            lanes.grow()
            capacity.grow()
        }
        let epoch: UInt32
        if flags.contains(.barrier) {
            barriers += 1
            epoch = epochs.end(with: index)
        } else {
            count += 1
            epoch = epochs.join()
        }
        lastNumber += 1
        slots[Int(index)] = QueueSlot(
            operation: operation, number: lastNumber, epoch: epoch, stage: .waiting, flags: flags)
        if flags.contains(.counted) { capacity.list(index) }
        operation.queueIndex = index
    }

    // MARK: Removing

    /// Removes an operation in any stage, and returns its flags; nil if it is not, or no longer, in the queue.
    mutating func remove(_ operation: ScheduledOperation, _ effects: inout Effects) -> QueueSlot.Flags? {
        let index = operation.queueIndex
        guard index >= 0 else { return nil }
        unlink(index)
        forgetRedirect(of: index, &effects)
        let slot = slots[Int(index)]
        uncount(index)
        lanes.move(index, toHost: nil)
        slots[Int(index)] = QueueSlot()
        free.append(index)
        operation.queueIndex = -1
        if slot.flags.contains(.barrier) {
            barriers -= 1
            beginNextEpoch()
        } else {
            count -= 1
            epochs.leave(slot.epoch)
        }
        if isEmpty { becomeEmpty(&effects) }
        return slot.flags
    }

    private mutating func becomeEmpty(_ effects: inout Effects) {
        for semaphore in idleWaiters { effects.add(.signal(semaphore)) }
        idleWaiters = []
        effects.emptied = queue
        queue = nil
        if slots.count > 4096 { releaseTables() }
    }

    /// Frees the memory of the slots. The queue must be empty.
    private mutating func releaseTables() {
        slots = []
        free = []
        capacity.releaseTables()
        lanes.releaseTables()
    }

    private mutating func beginNextEpoch() {
        var held = epochs.advance()
        while let index = lanes.laneLinks.popFirst(&held) {
            push(index, level: lanes.level(of: index))
            reportWait(of: index)
        }
    }

    /// Adds a ready operation to the lanes.
    private mutating func push(_ index: Int32, level: Int) {
        if slots[Int(index)].flags.contains(.slotless) {
            slots[Int(index)].stage = .slotless
            lanes.laneLinks.append(index, to: &slotless)
        } else {
            slots[Int(index)].stage = .ready
            lanes.push(index, level: level)
            lanes.noteWaitAtGate(of: index)
        }
    }

    /// Removes an operation from the list of its stage, and releases the resources that it holds.
    private mutating func unlink(_ index: Int32) {
        let stage = slots[Int(index)].stage
        slots[Int(index)].stage = .waiting
        switch stage {
        case .free, .waiting: break
        case .held: lanes.laneLinks.remove(index, from: &epochs[slots[Int(index)].epoch].held)
        case .ready: lanes.remove(index)
        case .exempt: lanes.laneLinks.remove(index, from: &exempts)
        case .slotless: lanes.laneLinks.remove(index, from: &slotless)
        case .granted, .running: stop(index)
        }
    }

    private mutating func stop(_ index: Int32) {
        let flags = slots[Int(index)].flags
        guard flags.isDisjoint(with: [.exempt, .slotless]) else { return }
        running -= 1
        if flags.contains(.redirected) { lanes.remove(index) }
        guard flags.contains(.holdsHost) else { return }
        slots[Int(index)].flags.remove(.holdsHost)
        lanes.didStop(index)
    }

    /// Records that an operation no longer counts towards the bounded length.
    mutating func uncount(_ index: Int32) {
        guard slots[Int(index)].flags.contains(.counted) else { return }
        slots[Int(index)].flags.remove(.counted)
        capacity.remove(index)
    }

    // MARK: Changes

    /// Moves an operation that has become ready into the list in which it waits for a slot.
    ///
    /// A cancelled operation only has to finish, and is exempt from all limits.
    mutating func makeReady(
        _ operation: ScheduledOperation, _ snapshot: ReadinessSnapshot, _ effects: inout Effects
    ) {
        let index = operation.queueIndex
        guard index >= 0, snapshot.isReady else { return }
        if snapshot.isCancelled { return exempt(index, isDirect: snapshot.isDirect) }
        let slot = slots[Int(index)]
        guard slot.stage == .waiting, !slot.flags.contains(.barrier) else { return }
        if snapshot.isDirect { slots[Int(index)].flags.insert(.direct) }
        if slot.flags.contains(.exempt) {
            slots[Int(index)].stage = .exempt
            lanes.laneLinks.append(index, to: &exempts)
            return
        }
        lanes.move(index, toHost: snapshot.host)
        lanes.setWaitsAtGate(snapshot.waitsAtGate, of: index)
        if slot.epoch != epochs.current {
            slots[Int(index)].stage = .held
            lanes.setLevel(Int(snapshot.level), of: index)
            lanes.laneLinks.append(index, to: &epochs[slot.epoch].held)
        } else {
            push(index, level: Int(snapshot.level))
        }
        effects.ready = index
    }

    /// Exempts an operation that is not running from all limits.
    private mutating func exempt(_ index: Int32, isDirect: Bool) {
        let slot = slots[Int(index)]
        let exemption: QueueSlot.Flags = isDirect ? [.exempt, .direct] : .exempt
        switch slot.stage {
        case .free, .exempt, .running: return
        case .granted where slot.flags.contains(.exempt): return
        case .waiting where slot.flags.contains(.barrier):
            // A cancelled barrier still separates the epochs; it only becomes exempt from limits.
            slots[Int(index)].flags.formUnion(exemption)
            return
        case .waiting, .held, .ready, .slotless, .granted: break
        }
        unlink(index)
        uncount(index)
        slots[Int(index)].flags.formUnion(exemption)
        slots[Int(index)].stage = .exempt
        lanes.laneLinks.append(index, to: &exempts)
    }

    /// Changes the level of an operation that waits for a slot.
    mutating func setLevel(_ level: Int, of operation: ScheduledOperation) {
        let index = operation.queueIndex
        guard index >= 0 else { return }
        switch slots[Int(index)].stage {
        case .ready:
            guard lanes.level(of: index) != level else { return }
            lanes.remove(index)
            lanes.push(index, level: level)
        case .held: lanes.setLevel(level, of: index)
        default: break
        }
    }

    /// Takes back the slot of an operation that stopped before its end.
    mutating func giveBack(_ operation: ScheduledOperation, _ effects: inout Effects) {
        let index = operation.queueIndex
        guard index >= 0, [.running, .granted].contains(slots[Int(index)].stage) else { return }
        unlink(index)
        forgetRedirect(of: index, &effects)
    }

    // MARK: Redirects

    /// Moves an executing operation to the host that it was redirected to.
    ///
    /// It releases the slot of its own host before it waits for a slot of the other host, so that no two operations
    /// wait for each other. It keeps the slot of the queue, so that the number of transfers never exceeds the number of
    /// slots in the queue. It precedes operations that have not been started.
    ///
    /// - Returns: Whether the operation may continue now. If not, `goOn` is called when it has the slot, unless it
    ///   stops first.
    mutating func redirect(
        _ operation: ScheduledOperation, to host: String, then goOn: @escaping @Sendable () -> Void
    ) -> Bool {
        let index = operation.queueIndex
        // An operation that only has to finish, or was started manually, has no slot.
        guard index >= 0, slots[Int(index)].stage == .running, slots[Int(index)].flags.contains(.holdsHost) else {
            return true
        }
        if lanes.redirect(index, to: host) {
            askForAnswer(index)
            return true
        }
        slots[Int(index)].flags.remove(.holdsHost)
        slots[Int(index)].flags.insert(.redirected)
        redirected[index] = goOn
        return false
    }

    /// Continues redirected operations that were granted the slot they were waiting for. A suspended queue starts no
    /// operations, but does not stop those already started.
    mutating func continueRedirected(_ effects: inout Effects) {
        while cancellations == 0, let index = lanes.popRedirected() {
            slots[Int(index)].flags.remove(.redirected)
            slots[Int(index)].flags.insert(.holdsHost)
            askForAnswer(index)
            if let goOn = redirected.removeValue(forKey: index) { effects.add(.goOn(goOn)) }
        }
    }

    private mutating func forgetRedirect(of index: Int32, _ effects: inout Effects) {
        guard slots[Int(index)].flags.contains(.redirected) else { return }
        slots[Int(index)].flags.remove(.redirected)
        // The continuation may hold user objects, which must not be released under the lock.
        if let goOn = redirected.removeValue(forKey: index) { effects.add(.release(goOn)) }
    }

    /// Returns the host whose limit and gate currently apply to an operation; nil for none.
    func host(of operation: ScheduledOperation) -> String? {
        operation.queueIndex < 0 ? nil : lanes.host(of: operation.queueIndex)
    }

    // MARK: The bounded length

    /// Exempts from all limits the oldest operation that has not been started, and returns that operation.
    mutating func dropOldest() -> ScheduledOperation? {
        guard let index = capacity.oldest else { return nil }
        uncount(index)
        unlink(index)
        slots[Int(index)].flags.insert(.exempt)
        return slots[Int(index)].operation
    }

    // MARK: Reasons to wait

    /// Whether only operations that merely have to finish may start now.
    var isHeldBack: Bool { isSuspended || cancellations > 0 }

    /// Reports to an operation why it begins to wait, if it has requested such reports.
    func reportWait(of index: Int32) {
        guard let operation = slots[Int(index)].operation, operation.has(.hearsOfWaits),
            let reason = waitReason(of: operation)
        else { return }
        operation.willWait(for: reason)
    }

    /// Returns the reason why an operation waits in the queue; nil if it does not. The reason of an operation that is not
    /// ready is `condition`.
    func waitReason(of operation: ScheduledOperation) -> WaitReason? {
        let index = operation.queueIndex
        guard index >= 0 else { return nil }
        return switch slots[Int(index)].stage {
        case .running where slots[Int(index)].flags.contains(.redirected): lanes.waitReason(of: index)
        case .free, .exempt, .granted, .running: nil
        case .waiting: slots[Int(index)].flags.contains(.barrier) ? .barrier : .condition
        case .held: .barrier
        case .slotless: isHeldBack ? .suspendedQueue : nil
        case .ready: isHeldBack ? .suspendedQueue : lanes.waitReason(of: index)
        }
    }
}
