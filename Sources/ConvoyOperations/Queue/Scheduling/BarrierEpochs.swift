/// The stretches between the barriers of a queue.
///
/// An operation belongs to the stretch in which it was added, and may start when that stretch is the
/// current one. A barrier may start when the stretch before it has no operation left. Constant time.
///
/// Numbers of stretches begin again at 0 some day: they are only compared with the current one.
struct BarrierEpochs {
    struct Epoch {
        var remaining = 0
        /// Ready operations that wait for the stretch to begin.
        var held = LinkTable.List()
        /// The barrier that ends the stretch.
        var barrier: Int32 = -1
    }

    private(set) var current: UInt32 = 0
    /// From the current one to the last, behind some that are over.
    private var epochs: ContiguousArray<Epoch> = [Epoch()]
    private var over = 0

    subscript(number: UInt32) -> Epoch {
        _read { yield epochs[over + Int(number &- current)] }
        _modify { yield &epochs[over + Int(number &- current)] }
    }

    private var last: UInt32 { current &+ UInt32(epochs.count - 1 - over) }

    /// Adds an operation to the last stretch, and returns its number.
    mutating func join() -> UInt32 {
        epochs[epochs.count - 1].remaining += 1
        return last
    }

    mutating func leave(_ number: UInt32) {
        self[number].remaining -= 1
    }

    /// Ends the last stretch with a barrier.
    mutating func end(with barrier: Int32) -> UInt32 {
        let ended = last
        epochs[epochs.count - 1].barrier = barrier
        epochs.append(Epoch())
        return ended
    }

    /// The barrier whose turn it is.
    var dueBarrier: Int32? {
        guard epochs.count - over > 1 else { return nil }
        let epoch = epochs[over]
        return epoch.remaining == 0 && epoch.barrier >= 0 ? epoch.barrier : nil
    }

    /// Takes the barrier out whose turn it is.
    mutating func takeDueBarrier() {
        epochs[over].barrier = -1
    }

    /// Begins the next stretch, after the barrier before it, and returns the operations held for it.
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
