import Foundation

/// One operation in a queue, and its stage.
struct QueueSlot {
    enum Stage: UInt8 {
        /// The slot is empty.
        case free
        /// The operation is not ready because of dependencies, a pause, or its own condition.
        case waiting
        /// The operation is ready, but was added behind a barrier.
        case held
        /// The operation is in the lanes and needs only a slot.
        case ready
        /// The operation is exempt from limits and suspension: it was cancelled, refused or dropped, and only has to
        /// finish.
        case exempt
        /// The operation is ready and needs no slot. It starts unless the queue is suspended.
        case slotless
        /// The operation has a slot, and waits for a thread of the dispatch queue.
        case granted
        /// The operation has a slot, and `start()` was called or is about to be.
        case running
    }

    struct Flags: OptionSet {
        let rawValue: UInt8
        static let direct = Flags(rawValue: 1)
        static let exempt = Flags(rawValue: 2)
        static let barrier = Flags(rawValue: 4)
        /// The operation counts towards the bounded length.
        static let counted = Flags(rawValue: 8)
        /// The operation counts as running at its host.
        static let holdsHost = Flags(rawValue: 16)
        /// The operation uses no slot.
        static let slotless = Flags(rawValue: 64)
        /// The operation executes with a slot of the queue, and waits for a slot of the host to which it was
        /// redirected.
        static let redirected = Flags(rawValue: 128)
    }

    var operation: ScheduledOperation?
    /// The position in the order in which operations were added.
    var number: UInt64 = 0
    /// The epoch, between two barriers, to which the operation belongs.
    var epoch: UInt32 = 0
    var stage = Stage.free
    var flags: Flags = []
}

/// The epochs of a queue: the intervals between its barriers.
///
/// An operation belongs to the epoch in which it was added, and may start when that epoch is the current one. A barrier
/// may start when the epoch before it has no operations left.
struct BarrierEpochs {
    struct Epoch {
        var remaining = 0
        /// Ready operations waiting for the epoch to begin.
        var held = IndexLinkedLists.List()
        /// The barrier that ends the epoch; nil if it does not exist yet or has been started.
        var barrier: Int32?
    }

    private(set) var current: UInt32 = 0
    private var last: UInt32 = 0
    /// The current epoch and all later ones.
    private var epochs: [UInt32: Epoch] = [:]

    subscript(number: UInt32) -> Epoch {
        get { epochs[number] ?? Epoch() }
        _modify { yield &epochs[number, default: Epoch()] }
    }

    /// Adds an operation to the last epoch, and returns the epoch's number.
    mutating func join() -> UInt32 {
        self[last].remaining += 1
        return last
    }

    mutating func leave(_ number: UInt32) { self[number].remaining -= 1 }

    /// Ends the last epoch with a barrier, and returns its number.
    mutating func end(with barrier: Int32) -> UInt32 {
        self[last].barrier = barrier
        last += 1
        return last - 1
    }

    /// The barrier that may start now, if any.
    var dueBarrier: Int32? {
        guard current < last, self[current].remaining == 0 else { return nil }
        return self[current].barrier
    }

    /// Removes the barrier that may start now.
    mutating func takeDueBarrier() { self[current].barrier = nil }

    /// Begins the next epoch after its barrier has finished, and returns the operations held for it.
    mutating func advance() -> IndexLinkedLists.List {
        epochs[current] = nil
        current += 1
        defer { self[current].held = IndexLinkedLists.List() }
        return self[current].held
    }
}

/// Doubly linked lists of slot indices. Each index is in at most one list of the table.
///
/// Indices are used instead of references, so that appending, removing and moving cost a few stores, without allocation
/// or reference counting, and a long list is freed at once.
struct IndexLinkedLists {
    /// A list in the table: its first and its last index, or -1.
    struct List {
        fileprivate(set) var head: Int32 = -1
        fileprivate(set) var tail: Int32 = -1

        var isEmpty: Bool { head < 0 }
    }

    private struct Neighbours {
        var previous: Int32 = -1
        var next: Int32 = -1
    }

    private var links: ContiguousArray<Neighbours> = []

    /// Makes room for one more index.
    mutating func grow() {
        links.append(Neighbours())
    }

    mutating func removeAll() {
        links = []
    }

    func next(after index: Int32) -> Int32 {
        links[Int(index)].next
    }

    mutating func append(_ index: Int32, to list: inout List) {
        links[Int(index)] = Neighbours(previous: list.tail)
        if list.tail < 0 { list.head = index } else { links[Int(list.tail)].next = index }
        list.tail = index
    }

    mutating func remove(_ index: Int32, from list: inout List) {
        let link = links[Int(index)]
        if link.previous < 0 { list.head = link.next } else { links[Int(link.previous)].next = link.next }
        if link.next < 0 { list.tail = link.previous } else { links[Int(link.next)].previous = link.previous }
        links[Int(index)] = Neighbours()
    }

    mutating func popFirst(_ list: inout List) -> Int32? {
        guard !list.isEmpty else { return nil }
        let index = list.head
        remove(index, from: &list)
        return index
    }
}
