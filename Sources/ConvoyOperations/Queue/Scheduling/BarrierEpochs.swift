/// The stretches between the barriers of a queue.
///
/// An operation belongs to the stretch in which it was added, and may start when that stretch is the
/// current one. A barrier may start when the stretch before it has no operation left. Constant time.
struct BarrierEpochs {
    struct Epoch {
        var remaining = 0
        /// Ready operations that wait for the stretch to begin.
        var held = IndexList()
        /// The barrier that ends the stretch.
        var barrier: Int32 = -1
    }

    private(set) var current = 0
    private(set) var last = 0
    private var epochs: [Int: Epoch] = [0: Epoch()]

    subscript(number: Int) -> Epoch {
        get { epochs[number] ?? Epoch() }
        set { epochs[number] = newValue }
    }

    /// Adds an operation to the last stretch, and returns its number.
    mutating func join() -> Int {
        epochs[last, default: Epoch()].remaining += 1
        return last
    }

    mutating func leave(_ number: Int) {
        epochs[number, default: Epoch()].remaining -= 1
    }

    /// Ends the last stretch with a barrier.
    mutating func end(with barrier: Int32) -> Int {
        epochs[last, default: Epoch()].barrier = barrier
        last += 1
        epochs[last] = Epoch()
        return last - 1
    }

    /// The barrier whose turn it is.
    var dueBarrier: Int32? {
        guard last > current, let epoch = epochs[current], epoch.remaining == 0, epoch.barrier >= 0 else { return nil }
        return epoch.barrier
    }

    /// Takes the barrier out whose turn it is.
    mutating func takeDueBarrier() {
        epochs[current]?.barrier = -1
    }

    /// Begins the next stretch, after the barrier before it, and returns the operations held for it.
    mutating func advance() -> IndexList {
        epochs[current] = nil
        current += 1
        let held = self[current].held
        epochs[current, default: Epoch()].held = IndexList()
        return held
    }
}
