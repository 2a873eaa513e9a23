import Foundation

/// The state that a ``Scheduler`` keeps under its lock: a value that calls no user code. It is noncopyable because the
/// compiler would otherwise copy it, with its lanes, for each query.
///
/// Each mutating call is short, and takes O(1), or O(log hosts) if it affects the lanes. Members that are not private
/// are mainly used by `QueueState+Starting.swift`.
struct QueueState: ~Copyable {
    var slots: ContiguousArray<QueueSlot> = []
    private var free: ContiguousArray<Int32> = []
    private var order = IndexLinkedLists()
    private var all = IndexLinkedLists.List()
    /// Ready operations that are exempt from limits and suspension.
    var exempts = IndexLinkedLists.List()
    /// Ready operations that use no slot, and start unless the queue is suspended.
    var slotless = IndexLinkedLists.List()
    var epochs = BarrierEpochs()
    private var barriers = 0
    private var foreigners: Set<ObjectIdentifier> = []

    /// The continuations of operations that were redirected to a host without a free slot. They keep their slot of the
    /// queue.
    private var redirected: [Int32: @Sendable () -> Void] = [:]

    var lanes = ReadyLanes()
    var length = QueueCapacity()
    var limit = Int.max
    var isSuspended = false
    /// The number of calls in progress that cancel all operations, or those in a cycle. No slot is granted until they
    /// have ended.
    var cancellations = 0
    var idleWaiters: [DispatchSemaphore] = []
    /// The queue, retained while it is not empty.
    private(set) var queue: (any FoundationBackedQueue)?
    /// The number of operations that hold a slot.
    var running = 0

    /// The number of operations in the queue, without barriers.
    private(set) var count = 0
    var isEmpty: Bool { count == 0 && barriers == 0 }

    var operations: [Operation] {
        var operations: [Operation] = []
        operations.reserveCapacity(count)
        var index = all.head
        while index >= 0 {
            if !slots[Int(index)].flags.contains(.barrier), let operation = slots[Int(index)].operation {
                operations.append(operation)
            }
            index = order.next(after: index)
        }
        return operations
    }

    /// All members, including barriers, newest first.
    var occupantsNewestFirst: [QueueSlot.Occupant] {
        var found: [QueueSlot.Occupant] = []
        var index = all.tail
        while index >= 0 {
            found.append(slots[Int(index)].occupant)
            index = order.previous(before: index)
        }
        return found
    }

    // MARK: Adding

    /// Adds an operation.
    mutating func insert(
        _ operation: ScheduledOperation, flags: QueueSlot.Flags, into queue: any FoundationBackedQueue
    ) {
        operation.queueIndex = add(.scheduled(operation), flags: flags, into: queue)
    }

    /// Adds an operation that is not one of Convoy's. Returns false if it is already in the queue.
    mutating func insert(
        _ member: ExternalOperation, flags: QueueSlot.Flags, into queue: any FoundationBackedQueue
    ) -> Bool {
        guard foreigners.insert(ObjectIdentifier(member.operation)).inserted else { return false }
        member.queueIndex = add(.foreign(member), flags: flags, into: queue)
        return true
    }

    private mutating func add(
        _ occupant: QueueSlot.Occupant, flags: QueueSlot.Flags, into queue: any FoundationBackedQueue
    ) -> Int32 {
        if self.queue == nil { self.queue = queue }
        let index: Int32
        if let reused = free.popLast() {
            index = reused
        } else {
            index = Int32(slots.count)
            slots.appendGrowingByAQuarter(QueueSlot())
            order.grow()
            lanes.grow()
        }
        let epoch: UInt32
        if flags.contains(.barrier) {
            barriers += 1
            epoch = epochs.end(with: index)
        } else {
            count += 1
            epoch = epochs.join()
        }
        slots[Int(index)] = QueueSlot(occupant: occupant, epoch: epoch, stage: .waiting, flags: flags)
        order.append(index, to: &all)
        if flags.contains(.reserved) { length.useReservation() }
        if flags.contains(.counted) { length.join(index) }
        return index
    }

    // MARK: Removing

    /// Removes an operation in any stage, and returns its flags; nil if it is not, or no longer, in the queue.
    mutating func remove(_ index: Int32, now: () -> UInt64, _ turn: inout Effects) -> QueueSlot.Flags? {
        guard index >= 0 else { return nil }
        unlink(index)
        let slot = slots[Int(index)]
        if slot.flags.contains(.counted) { length.leave(index) }
        if slot.flags.contains(.redirected) { forgetRedirect(of: index, &turn) }
        lanes.leave(index)
        order.remove(index, from: &all)
        slots[Int(index)] = QueueSlot()
        free.append(index)
        switch slot.occupant {
        case .none: break
        case .scheduled(let operation): operation.queueIndex = -1
        case .foreign(let member):
            member.queueIndex = -1
            foreigners.remove(ObjectIdentifier(member.operation))
        }
        if slot.flags.contains(.barrier) {
            barriers -= 1
            beginNextEpoch(now: now())
        } else {
            count -= 1
            epochs.leave(slot.epoch)
        }
        if isEmpty { becomeEmpty(&turn) }
        return slot.flags
    }

    private mutating func becomeEmpty(_ turn: inout Effects) {
        for semaphore in idleWaiters { turn.effects.append(.signal(semaphore)) }
        idleWaiters = []
        turn.emptied = queue
        queue = nil
        if slots.count > 4096 { releaseTables() }
    }

    /// Frees the memory of the slots. The queue must be empty.
    mutating func releaseTables() {
        slots = []
        free = []
        order.removeAll()
        length.releaseTables()
        lanes.releaseTables()
    }

    private mutating func beginNextEpoch(now: UInt64) {
        var held = epochs.advance()
        while let index = lanes.laneLinks.popFirst(&held) {
            push(index, level: lanes.level(of: index), now: now)
        }
    }

    /// Adds a ready operation to the lanes.
    private mutating func push(_ index: Int32, level: Int, now: UInt64) {
        if slots[Int(index)].flags.contains(.slotless) {
            slots[Int(index)].stage = .slotless
            lanes.laneLinks.append(index, to: &slotless)
            if isHeldBack { listener(index)?.willWait(for: .suspendedQueue) }
            return
        }
        slots[Int(index)].stage = .ready
        lanes.push(index, level: level, now: now)
        if let operation = listener(index) {
            operation.willWait(for: isHeldBack ? .suspendedQueue : lanes.waitReason(of: index))
        }
    }

    /// Returns the operation if it has requested reports of its wait reasons; otherwise nil.
    private func listener(_ index: Int32) -> ScheduledOperation? {
        guard case .scheduled(let operation) = slots[Int(index)].occupant, operation.hearsOfWaits else { return nil }
        return operation
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
        if flags.contains(.redirected) { lanes.stopWaiting(index) }
        guard flags.contains(.holdsHost) else { return }
        slots[Int(index)].flags.remove(.holdsHost)
        lanes.didStop(index)
    }

    mutating func uncount(_ index: Int32) {
        guard slots[Int(index)].flags.contains(.counted) else { return }
        slots[Int(index)].flags.remove(.counted)
        length.leave(index)
    }

    // MARK: Changes

    /// Moves an operation that has become ready into the list in which it waits for a slot.
    ///
    /// A cancelled operation only has to finish, and is exempt from all limits.
    ///
    /// - Parameter mayStart: Whether the operation may be granted a slot immediately, as the turn's grant.
    mutating func makeReady(
        _ index: Int32, _ snapshot: ReadinessSnapshot, mayStart: Bool, now: () -> UInt64, _ turn: inout Effects
    ) {
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
            listener(index)?.willWait(for: .barrier)
        } else if slot.flags.contains(.slotless) || !mayStart || !startAtOnce(index, now: now, &turn) {
            push(index, level: Int(snapshot.level), now: now())
        }
    }

    /// Exempts an operation that is not running from all limits.
    private mutating func exempt(_ index: Int32, isDirect: Bool) {
        let slot = slots[Int(index)]
        switch slot.stage {
        case .free, .exempt, .running: return
        case .granted where slot.flags.contains(.exempt): return
        case .waiting where slot.flags.contains(.barrier):
            // A cancelled barrier still separates the epochs; it only becomes exempt from limits.
            slots[Int(index)].flags.formUnion(isDirect ? [.exempt, .direct] : .exempt)
            return
        case .waiting, .held, .ready, .slotless, .granted: break
        }
        unlink(index)
        uncount(index)
        slots[Int(index)].flags.formUnion(isDirect ? [.exempt, .direct] : .exempt)
        slots[Int(index)].stage = .exempt
        lanes.laneLinks.append(index, to: &exempts)
    }

    /// Changes the level of an operation that waits for a slot.
    mutating func setLevel(_ level: Int, of index: Int32, now: () -> UInt64) {
        guard index >= 0 else { return }
        switch slots[Int(index)].stage {
        case .ready:
            guard lanes.level(of: index) != level else { return }
            lanes.remove(index)
            lanes.push(index, level: level, now: now())
        case .held: lanes.setLevel(level, of: index)
        default: break
        }
    }

    /// Takes back the slot of an operation that stopped before its end.
    mutating func giveBack(_ index: Int32, _ turn: inout Effects) {
        guard index >= 0 else { return }
        guard [.running, .granted].contains(slots[Int(index)].stage) else { return }
        unlink(index)
        if slots[Int(index)].flags.contains(.redirected) { forgetRedirect(of: index, &turn) }
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
        _ index: Int32, to host: HostKey, then goOn: @escaping @Sendable () -> Void
    ) -> Bool {
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
    mutating func endRedirects(_ turn: inout Effects) {
        guard cancellations == 0 else { return }
        while let index = lanes.nextRedirected() {
            slots[Int(index)].flags.remove(.redirected)
            slots[Int(index)].flags.insert(.holdsHost)
            askForAnswer(index)
            if let goOn = redirected.removeValue(forKey: index) { turn.effects.append(.goOn(goOn)) }
        }
    }

    private mutating func forgetRedirect(of index: Int32, _ turn: inout Effects) {
        slots[Int(index)].flags.remove(.redirected)
        // The continuation may hold user objects, which must not be released under the lock.
        if let goOn = redirected.removeValue(forKey: index) { turn.effects.append(.release(goOn)) }
    }

    /// Returns the host whose limit and gate currently apply to an operation; nil for none.
    func host(of index: Int32) -> HostKey? { index < 0 ? nil : lanes.hosts[lanes.entries[Int(index)].host].key }

    // MARK: The bounded length

    /// Sets the maximum number of operations waiting to be started; nil for no limit.
    mutating func bound(to maximum: Int?) {
        var waiting: [Int32] = []
        var index = all.head
        while index >= 0 {
            if slots[Int(index)].flags.contains(.counted) { waiting.append(index) }
            index = order.next(after: index)
        }
        length.bound(to: maximum, slots: waiting)
    }

    /// Exempts from all limits the oldest operation that has not been started, and returns that operation.
    mutating func dropOldest() -> QueueSlot.Occupant? {
        guard let index = length.oldest else { return nil }
        uncount(index)
        unlink(index)
        slots[Int(index)].flags.insert(.exempt)
        return slots[Int(index)].occupant
    }
}
