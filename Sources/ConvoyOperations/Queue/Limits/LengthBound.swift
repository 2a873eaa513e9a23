/// How many operations wait to be started, how many may, and who waits for a place.
struct LengthBound {
    var maximum: Int?
    private(set) var length = 0
    /// Places given to waiters that have not used them yet.
    private var reserved = 0
    private var waiters: [LengthWaiter] = []
    private var firstWaiter = 0

    var hasWaiters: Bool { firstWaiter < waiters.count }
    var isFull: Bool { maximum.map { length + reserved >= $0 } ?? false }

    mutating func join() { length += 1 }
    mutating func leave() { length -= 1 }
    mutating func reserve() { reserved += 1 }
    mutating func useReservation() { reserved -= 1 }
    mutating func wait(_ waiter: LengthWaiter) { waiters.append(waiter) }

    /// Takes a waiter out. False if it has been given a place already.
    mutating func giveUp(_ waiter: LengthWaiter) -> Bool {
        guard let index = waiters[firstWaiter...].firstIndex(where: { $0 === waiter }) else { return false }
        waiters.remove(at: index)
        return true
    }

    /// Reserves the free places for those who have waited longest, to be resumed outside the lock.
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
