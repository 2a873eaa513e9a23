/// Holds one direction of a transfer to its rate limits. Belongs to the network thread.
///
/// It stands in one line at a time. What one limit has granted is kept while it waits at the next one.
final class TransferThrottle: @unchecked Sendable {
    @exclusivity(unchecked) private var waiters: [RateWaiter] = []
    /// Whether it stands in a line.
    @exclusivity(unchecked) private(set) var isWaiting = false

    /// - Parameters:
    ///   - limits: those of the transfer; one that is named twice counts once.
    ///   - thread: the thread of the transfer.
    ///   - proceed: called on the thread when bytes may pass that were not admitted before. They are to be asked for
    ///     again.
    init(limits: [RateLimit], thread: NetworkThread, proceed: @escaping @Sendable () -> Void) {
        for limit in limits where !waiters.contains(where: { $0.limit === limit }) {
            waiters.append(
                RateWaiter(at: limit, thread: thread) { [weak self] in
                    self?.isWaiting = false
                    proceed()
                })
        }
    }

    /// Whether so many bytes may pass. If not, `proceed` is called when it is time to ask again.
    func admits(_ count: Int) -> Bool {
        guard !isWaiting else { return false }
        for waiter in waiters where !waiter.limit.admits(count, of: waiter) {
            isWaiting = true
            return false
        }
        return true
    }

    /// Counts bytes that have passed after they were admitted.
    func use(_ count: Int) {
        for waiter in waiters { waiter.limit.use(count, by: waiter) }
    }

    /// Counts bytes that have passed without having been admitted.
    func charge(_ count: Int) {
        for waiter in waiters { waiter.limit.charge(count) }
    }

    /// The transfer has ended, or goes on without the limits.
    func leave() {
        for waiter in waiters { waiter.limit.leave(waiter) }
        waiters = []
        isWaiting = false
    }

    /// How many bytes are to be moved at a time under these limits: few under a low one, so that they flow evenly.
    static func blockSize(under limits: [RateLimit], atMost most: Int) -> Int {
        limits.reduce(most) { size, limit in
            guard let rate = limit.bytesPerSecond else { return size }
            return min(size, max(smallestBlock, Int(clamping: rate / 50)))
        }
    }

    /// The smallest receive buffer that libcurl has.
    private static let smallestBlock = 1024
}

/// How fast a transfer may be, and how slow.
struct TransferLimits: Sendable, Hashable {
    var receiving: [RateLimit] = []
    var sending: [RateLimit] = []
    var stall: StallLimit?
}
