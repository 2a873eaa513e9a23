/// Applies rate limits to one direction of a transfer. Belongs to the network thread.
///
/// It is queued at one limit at a time. What one limit has granted is kept while it waits for the next.
final class TransferThrottle: @unchecked Sendable {
    @exclusivity(unchecked) private var waiters: [RateWaiter] = []
    /// Whether it is queued.
    @exclusivity(unchecked) private(set) var isWaiting = false

    /// - Parameters:
    ///   - limits: the transfer's limits; duplicates count once.
    ///   - thread: the transfer's thread.
    ///   - proceed: called on the thread when bytes may pass that were not admitted. Ask for them again.
    init(limits: [RateLimit], thread: NetworkThread, proceed: @escaping @Sendable () -> Void) {
        for limit in limits where !waiters.contains(where: { $0.limit === limit }) {
            waiters.append(
                RateWaiter(at: limit, thread: thread) { [weak self] in
                    self?.isWaiting = false
                    proceed()
                })
        }
    }

    /// Whether these bytes may pass. If not, `proceed` is called when it is time to ask again.
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

    /// Counts bytes that have passed without being admitted.
    func charge(_ count: Int) {
        for waiter in waiters { waiter.limit.charge(count) }
    }

    /// Ends the throttling, as the transfer has ended or has no limits any more.
    func leave() {
        for waiter in waiters { waiter.limit.leave(waiter) }
        waiters = []
        isWaiting = false
    }

    /// The block size under these limits: small under a low limit, so that bytes flow evenly.
    static func blockSize(under limits: [RateLimit], atMost most: Int) -> Int {
        limits.reduce(most) { size, limit in
            guard let rate = limit.bytesPerSecond else { return size }
            return min(size, max(smallestBlock, Int(clamping: rate / 50)))
        }
    }

    /// The smallest receive buffer that libcurl has.
    private static let smallestBlock = 1024
}

/// The limits on the speed of a transfer.
struct TransferLimits: Sendable, Hashable {
    var receiving: [RateLimit] = []
    var sending: [RateLimit] = []
    var stall: StallLimit?
}
