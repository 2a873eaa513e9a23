/// Which workers a queue has, and which of them are busy. A value; the queue guards it.
struct WorkerCrew {
    /// The number of a worker, below 64.
    typealias Number = UInt8

    static let most = 64

    private var present: UInt64 = 0
    private var busy: UInt64 = 0

    private var idleCount: Int { (present & ~busy).nonzeroBitCount }

    /// Adds workers until there is an idle one for each waiting operation, or no more are allowed, and returns their
    /// numbers, one bit each.
    mutating func hire(for waiting: Int) -> UInt64 {
        var lacking = min(waiting - idleCount, Self.most - present.nonzeroBitCount)
        var hired: UInt64 = 0
        while lacking > 0 {
            hired |= ~(present | hired) & (present | hired &+ 1)
            lacking -= 1
        }
        present |= hired
        return hired
    }

    mutating func dismiss(_ worker: Number) {
        present &= ~(1 << UInt64(worker))
        release(worker)
    }

    mutating func occupy(_ worker: Number) { busy |= 1 << UInt64(worker) }

    /// Counts a worker as idle: it has returned from an operation, or is about to return.
    mutating func release(_ worker: Number) { busy &= ~(1 << UInt64(worker)) }
}
