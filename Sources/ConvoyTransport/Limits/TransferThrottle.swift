/// A throttle that applies rate limits to one direction of a transfer. Used on the network thread only.
///
/// It waits at the limits one after the other, keeping the grants of earlier limits while it waits at the next.
final class TransferThrottle: @unchecked Sendable {
    @exclusivity(unchecked) private var waiters: [RateWaiter] = []
    /// Whether the transfer is waiting in the queue of a limit.
    @exclusivity(unchecked) private(set) var isWaiting = false

    /// - Parameters:
    ///   - limits: The transfer's limits; duplicates count once.
    ///   - thread: The transfer's thread.
    ///   - proceed: Called on the thread when bytes that were not admitted may pass. Call `admits(_:)` again.
    init(limits: [RateLimit], thread: NetworkThread, proceed: @escaping @Sendable () -> Void) {
        for limit in limits where !waiters.contains(where: { $0.limit === limit }) {
            waiters.append(
                RateWaiter(at: limit, thread: thread) { [weak self] in
                    self?.isWaiting = false
                    proceed()
                })
        }
    }

    /// Returns whether the given number of bytes may pass. If not, `proceed` is called when it is time to call this
    /// again.
    func admits(_ count: Int) -> Bool {
        guard !isWaiting else { return false }
        for waiter in waiters where !waiter.limit.admits(count, of: waiter) {
            isWaiting = true
            return false
        }
        return true
    }

    /// Counts bytes that passed after being admitted.
    func use(_ count: Int) {
        for waiter in waiters { waiter.limit.use(count, by: waiter) }
    }

    /// Counts bytes that passed without being admitted.
    func charge(_ count: Int) {
        for waiter in waiters { waiter.limit.charge(count) }
    }

    /// Ends throttling when the transfer has ended or its limits were removed.
    func leave() {
        for waiter in waiters { waiter.limit.leave(waiter) }
        waiters = []
        isWaiting = false
    }

    /// Returns the block size under the given limits: small under a low limit, so that bytes flow evenly.
    static func blockSize(under limits: [RateLimit], atMost most: Int) -> Int {
        limits.reduce(most) { size, limit in
            guard let rate = limit.bytesPerSecond else { return size }
            return min(size, max(smallestBlock, Int(clamping: rate / 50)))
        }
    }

    /// The minimum size of libcurl's receive buffer.
    private static let smallestBlock = 1024
}

/// The limits on the speed of a transfer.
struct TransferLimits: Sendable, Hashable {
    var receiving: [RateLimit] = []
    var sending: [RateLimit] = []
    var stall: StallLimit?
}
