/// The epochs of a queue: the stretches between its barriers.
///
/// An operation belongs to the epoch in which it was added, and may start when that epoch is the current one. A barrier
/// may start when the epoch before it has no operations left. All calls take amortised constant time.
///
/// Epoch numbers wrap around, so they are only compared with the current one.
struct BarrierEpochs {
    struct Epoch {
        var remaining = 0
        /// Ready operations that wait for the epoch to begin.
        var held = LinkTable.List()
        /// The barrier that ends the epoch.
        var barrier: Int32 = -1
    }

    private(set) var current: UInt32 = 0
    /// Some past epochs, then those from the current one to the last.
    private var epochs: ContiguousArray<Epoch> = [Epoch()]
    private var over = 0

    subscript(number: UInt32) -> Epoch {
        _read { yield epochs[over + Int(number &- current)] }
        _modify { yield &epochs[over + Int(number &- current)] }
    }

    private var last: UInt32 { current &+ UInt32(epochs.count - 1 - over) }

    /// Adds an operation to the last epoch, and returns the epoch's number.
    mutating func join() -> UInt32 {
        epochs[epochs.count - 1].remaining += 1
        return last
    }

    mutating func leave(_ number: UInt32) {
        self[number].remaining -= 1
    }

    /// Ends the last epoch with a barrier, and returns its number.
    mutating func end(with barrier: Int32) -> UInt32 {
        let ended = last
        epochs[epochs.count - 1].barrier = barrier
        epochs.append(Epoch())
        return ended
    }

    /// The barrier that may start now.
    var dueBarrier: Int32? {
        guard epochs.count - over > 1 else { return nil }
        let epoch = epochs[over]
        return epoch.remaining == 0 && epoch.barrier >= 0 ? epoch.barrier : nil
    }

    /// Removes the barrier that may start now.
    mutating func takeDueBarrier() {
        epochs[over].barrier = -1
    }

    /// Begins the next epoch, after its barrier has finished, and returns the operations held for it.
    mutating func advance() -> LinkTable.List {
        over += 1
        current &+= 1
        if over >= 32, over > epochs.count / 2 {
            epochs.removeFirst(over)
            over = 0
        }
        defer { epochs[over].held = LinkTable.List() }
        return epochs[over].held
    }
}
