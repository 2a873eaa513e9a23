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
    /// The callers that wait, by their places, and the order in which they have come: any of them may leave at once.
    private var waiters: ContiguousArray<LengthWaiter?> = []
    private var freePlaces: ContiguousArray<Int32> = []
    private var waiterLinks = LinkTable()
    private var line = LinkTable.List()

    var hasWaiters: Bool { !line.isEmpty }
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

    mutating func wait(_ waiter: LengthWaiter) {
        if let place = freePlaces.popLast() {
            waiter.place = place
            waiters[Int(place)] = waiter
        } else {
            waiter.place = Int32(waiters.count)
            waiters.append(waiter)
            waiterLinks.grow()
        }
        waiterLinks.append(waiter.place, to: &line)
    }

    /// Removes a waiter. False if it has already been given a place. Constant time, as all of them may give up at once.
    mutating func giveUp(_ waiter: LengthWaiter) -> Bool {
        guard waiter.place >= 0 else { return false }
        waiterLinks.remove(waiter.place, from: &line)
        free(waiter)
        return true
    }

    private mutating func free(_ waiter: LengthWaiter) {
        waiters[Int(waiter.place)] = nil
        freePlaces.append(waiter.place)
        waiter.place = -1
        guard line.isEmpty else { return }
        (waiters, freePlaces) = ([], [])
        waiterLinks.removeAll()
    }

    /// Reserves the free places for the waiters that have waited longest. The caller resumes them outside the lock.
    mutating func admit() -> [LengthWaiter] {
        var admitted: [LengthWaiter] = []
        while !line.isEmpty, !isFull, let waiter = waiters[Int(line.head)] {
            _ = giveUp(waiter)
            admitted.append(waiter)
            reserved += 1
        }
        return admitted
    }
}
