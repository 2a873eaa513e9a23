/// The bounded length of a queue: how many operations wait to be started, the maximum, and the callers that wait for a
/// place.
struct LengthBound {
    private(set) var maximum: Int?
    private(set) var length = 0
    /// The operations that wait to be started, the oldest first. Only maintained while there is a maximum.
    private var counted = LinkTable.List()
    private var links = LinkTable()
    /// Places that were reserved and are not used yet.
    private var reserved = 0
    private var waiters: [LengthWaiter] = []
    private var firstWaiter = 0

    var hasWaiters: Bool { firstWaiter < waiters.count }
    var isFull: Bool { maximum.map { length + reserved >= $0 } ?? false }
    /// The slot of the operation that has waited longest.
    var oldest: Int32? { counted.isEmpty ? nil : counted.head }

    /// Sets the maximum.
    ///
    /// - Parameter slots: the operations that wait to be started, the oldest first; needed if there was no maximum
    ///   before.
    mutating func bound(to maximum: Int?, slots: [Int32]) {
        let wasListed = self.maximum != nil
        self.maximum = maximum
        if maximum == nil {
            counted = LinkTable.List()
            links.removeAll()
        } else if !wasListed {
            for slot in slots { list(slot) }
        }
    }

    mutating func join(_ slot: Int32) {
        length += 1
        if maximum != nil { list(slot) }
    }

    mutating func leave(_ slot: Int32) {
        length -= 1
        if maximum != nil { links.remove(slot, from: &counted) }
    }

    private mutating func list(_ slot: Int32) {
        links.grow(to: Int(slot) + 1)
        links.append(slot, to: &counted)
    }

    /// Frees the memory of the slots. For an empty queue.
    mutating func releaseTables() { links.removeAll() }

    mutating func reserve() { reserved += 1 }
    mutating func useReservation() { reserved -= 1 }
    mutating func wait(_ waiter: LengthWaiter) { waiters.append(waiter) }

    /// Removes a waiter. False if it has already been given a place.
    mutating func giveUp(_ waiter: LengthWaiter) -> Bool {
        guard let index = waiters[firstWaiter...].firstIndex(where: { $0 === waiter }) else { return false }
        waiters.remove(at: index)
        return true
    }

    /// Reserves the free places for the waiters that have waited longest. The caller resumes them outside the lock.
    mutating func admit() -> [LengthWaiter] {
        var admitted: [LengthWaiter] = []
        while firstWaiter < waiters.count, !isFull {
            admitted.append(waiters[firstWaiter])
            firstWaiter += 1
            reserved += 1
        }
        if firstWaiter == waiters.count, firstWaiter > 0 {
            waiters.removeAll(keepingCapacity: true)
            firstWaiter = 0
        } else if firstWaiter > 256 {
            waiters.removeFirst(firstWaiter)
            firstWaiter = 0
        }
        return admitted
    }
}
