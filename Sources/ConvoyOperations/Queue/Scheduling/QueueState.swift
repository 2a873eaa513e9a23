import Foundation

/// All that a ``RequestOperationQueue`` keeps under its lock: a value that calls nobody's code.
///
/// Each mutating call is short, and takes O(1), or O(log hosts) where the lanes are touched. What is not
/// private is for `QueueState+Starting.swift`.
struct QueueState {
    /// What is let go by the removal of an operation, so that it can be released outside the lock.
    struct Removed {
        var slot: QueueSlot
        var admitted: [LengthWaiter]
        var idle: [DispatchSemaphore]
        var queue: (any FoundationBackedQueue)?
    }

    var slots: ContiguousArray<QueueSlot> = []
    private var free: [Int32] = []
    private var order = LinkTable()
    private var all = IndexList()
    /// Those that count towards the bounded length, the oldest first.
    var places = LinkTable()
    private var counted = IndexList()
    /// Links of the lists below: a slot is in one of them at most.
    var links = LinkTable()
    var exempts = IndexList()
    var runnable = IndexList()
    var runnableCount = 0
    var epochs = BarrierEpochs()
    private var barriers = 0
    private var foreigners: Set<ObjectIdentifier> = []

    var lanes = ReadyLanes()
    var length = LengthBound()
    var limit = Int.max
    var isSuspended = false
    /// How many calls are about to cancel everything. Until they are done no slot is given out.
    var cancellations = 0
    var idleWaiters: [DispatchSemaphore] = []
    /// The queue, which must not be released as long as it is not empty.
    private(set) var queue: (any FoundationBackedQueue)?
    var running = 0
    var workers = 0
    var busyWorkers = 0

    /// Operations in the queue, without barriers.
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

    /// Everything, barriers too, the newest first.
    var slotsNewestFirst: [QueueSlot] {
        var found: [QueueSlot] = []
        var index = all.tail
        while index >= 0 {
            found.append(slots[Int(index)])
            index = order.previous(before: index)
        }
        return found
    }

    // MARK: Coming and going

    /// Adds an operation that is ready or not, as `examination` says.
    mutating func insert(
        _ operation: ScheduledOperation, _ examination: Examination, flags: QueueSlot.Flags,
        into queue: any FoundationBackedQueue, now: UInt64
    ) {
        if self.queue == nil { self.queue = queue }
        operation.queueIndex = add(operation, nil, flags: flags)
        if examination.isReady { makeReady(operation.queueIndex, examination, now: now) }
    }

    /// Adds an operation that is none of Convoy's. False if it is in the queue already.
    mutating func insert(
        _ member: ForeignMember, _ examination: Examination, flags: QueueSlot.Flags,
        into queue: any FoundationBackedQueue, now: UInt64
    ) -> Bool {
        guard foreigners.insert(ObjectIdentifier(member.operation)).inserted else { return false }
        if self.queue == nil { self.queue = queue }
        member.queueIndex = add(member.operation, member, flags: flags)
        if examination.isReady { makeReady(member.queueIndex, examination, now: now) }
        return true
    }

    /// Adds a barrier behind everything that is in the queue.
    mutating func insertBarrier(_ operation: ScheduledOperation, into queue: any FoundationBackedQueue) {
        if self.queue == nil { self.queue = queue }
        operation.queueIndex = add(operation, nil, flags: .barrier)
    }

    private mutating func add(_ operation: Operation, _ foreign: ForeignMember?, flags: QueueSlot.Flags) -> Int32 {
        let index: Int32
        if let reused = free.popLast() {
            index = reused
        } else {
            index = Int32(slots.count)
            slots.append(QueueSlot())
            order.grow(to: slots.count)
            links.grow(to: slots.count)
            places.grow(to: slots.count)
            lanes.grow(to: slots.count)
        }
        slots[Int(index)].operation = operation
        slots[Int(index)].foreign = foreign
        slots[Int(index)].flags = flags
        slots[Int(index)].phase = .waiting
        order.append(index, to: &all)
        if flags.contains(.barrier) {
            barriers += 1
            slots[Int(index)].epoch = epochs.end(with: index)
        } else {
            count += 1
            slots[Int(index)].epoch = epochs.join()
        }
        if flags.contains(.counted) {
            places.append(index, to: &counted)
            length.join()
        }
        return index
    }

    /// Takes an operation out, in whatever phase it is. Nil if it is not in the queue (any more).
    mutating func remove(_ index: Int32, now: UInt64) -> Removed? {
        guard index >= 0 else { return nil }
        let slot = slots[Int(index)]
        unlink(index)
        if let worker = slot.worker { release(worker) }
        uncount(index)
        lanes.leave(index)
        order.remove(index, from: &all)
        slots[Int(index)] = QueueSlot()
        if slot.flags.contains(.barrier) {
            barriers -= 1
            beginNextEpoch(now: now)
        } else {
            count -= 1
            epochs.leave(slot.epoch)
        }
        if let foreign = slot.foreign {
            foreign.queueIndex = -1
            foreigners.remove(ObjectIdentifier(foreign.operation))
        } else {
            slot.scheduled?.queueIndex = -1
        }
        free.append(index)
        var removed = Removed(slot: slot, admitted: length.admit(), idle: [])
        if isEmpty {
            swap(&removed.idle, &idleWaiters)
            swap(&removed.queue, &queue)
            shrinkIfLarge()
        }
        return removed
    }

    private mutating func shrinkIfLarge() {
        guard slots.count > 4096 else { return }
        slots = []
        free = []
        order.removeAll()
        links.removeAll()
        places.removeAll()
        lanes.shrink()
    }

    private mutating func beginNextEpoch(now: UInt64) {
        var held = epochs.advance()
        while let index = links.popFirst(&held) {
            slots[Int(index)].phase = .ready
            lanes.push(index, level: lanes.level(of: index), now: now)
        }
    }

    /// Takes a slot out of the list that its phase says it is in, and gives back what it holds.
    private mutating func unlink(_ index: Int32) {
        let slot = slots[Int(index)]
        switch slot.phase {
        case .free, .waiting: break
        case .held: links.remove(index, from: &epochs[slot.epoch].held)
        case .ready: lanes.remove(index)
        case .exempt: links.remove(index, from: &exempts)
        case .granted:
            links.remove(index, from: &runnable)
            runnableCount -= 1
            stop(index)
        case .running: stop(index)
        }
        slots[Int(index)].phase = .waiting
    }

    private mutating func stop(_ index: Int32) {
        guard !slots[Int(index)].flags.contains(.exempt) else { return }
        running -= 1
        guard slots[Int(index)].flags.contains(.holdsHost) else { return }
        slots[Int(index)].flags.remove(.holdsHost)
        lanes.didStop(index)
    }

    mutating func uncount(_ index: Int32) {
        guard slots[Int(index)].flags.contains(.counted) else { return }
        slots[Int(index)].flags.remove(.counted)
        places.remove(index, from: &counted)
        length.leave()
    }

    // MARK: Changes

    /// Moves an operation that has become ready to where it waits for a slot.
    ///
    /// One that is cancelled only has to finish, and is taken out of all that could hold it back.
    mutating func makeReady(_ index: Int32, _ examination: Examination, now: UInt64) {
        guard index >= 0, examination.isReady else { return }
        if examination.isCancelled { return exempt(index, isDirect: examination.isDirect) }
        let slot = slots[Int(index)]
        guard slot.phase == .waiting, !slot.flags.contains(.barrier) else { return }
        if examination.isDirect { slots[Int(index)].flags.insert(.direct) }
        if slot.flags.contains(.exempt) {
            slots[Int(index)].phase = .exempt
            links.append(index, to: &exempts)
            return
        }
        lanes.move(index, toHost: examination.host)
        lanes.setWaitsAtGate(examination.waitsAtGate, of: index)
        if slot.epoch > epochs.current {
            slots[Int(index)].phase = .held
            lanes.setLevel(examination.level, of: index)
            links.append(index, to: &epochs[slot.epoch].held)
        } else {
            slots[Int(index)].phase = .ready
            lanes.push(index, level: examination.level, now: now)
        }
    }

    /// Lets an operation that is not running start outside all limits.
    private mutating func exempt(_ index: Int32, isDirect: Bool) {
        let slot = slots[Int(index)]
        switch slot.phase {
        case .free, .exempt, .running: return
        case .granted where slot.flags.contains(.exempt): return
        case .waiting where slot.flags.contains(.barrier):
            // It still divides what is before it from what is behind it: it is only due in spite of all limits.
            slots[Int(index)].flags.formUnion(isDirect ? [.exempt, .direct] : .exempt)
            return
        case .waiting, .held, .ready, .granted: break
        }
        unlink(index)
        uncount(index)
        slots[Int(index)].flags.formUnion(isDirect ? [.exempt, .direct] : .exempt)
        slots[Int(index)].phase = .exempt
        links.append(index, to: &exempts)
    }

    /// Changes the level of an operation that waits for a slot.
    mutating func setLevel(_ level: Int, of index: Int32, now: UInt64) {
        guard index >= 0 else { return }
        switch slots[Int(index)].phase {
        case .ready:
            lanes.remove(index)
            lanes.push(index, level: level, now: now)
        case .held: lanes.setLevel(level, of: index)
        default: break
        }
    }

    /// Takes the slot of an operation that stopped before its end.
    mutating func giveBack(_ index: Int32) {
        guard index >= 0, slots[Int(index)].phase == .running || slots[Int(index)].phase == .granted else { return }
        unlink(index)
        slots[Int(index)].worker = nil
    }

    /// Takes the oldest operation that has not been started out of all limits, and returns it.
    mutating func dropOldest() -> QueueSlot? {
        guard !counted.isEmpty else { return nil }
        let index = counted.head
        uncount(index)
        unlink(index)
        slots[Int(index)].flags.insert(.exempt)
        return slots[Int(index)]
    }
}
