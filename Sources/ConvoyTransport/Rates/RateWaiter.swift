import ConvoySupport

/// The place of one transfer at one rate limit: what it has been granted, and where it stands in line.
final class RateWaiter: @unchecked Sendable {
    let limit: RateLimit
    private let thread: NetworkThread
    private let proceed: @Sendable () -> Void

    // Guarded by the limit's lock.

    /// The number of the place in the line; nil for none.
    @exclusivity(unchecked) var place: Int?
    /// How many bytes are needed to go on.
    @exclusivity(unchecked) var needed = 0.0
    /// How many bytes may pass without asking.
    @exclusivity(unchecked) var granted = 0.0
    /// The rate under which they were granted, by its number; they are void under another one.
    @exclusivity(unchecked) var rateNumber: UInt64 = 0

    /// Belongs to the network thread.
    @exclusivity(unchecked) private var timer: RunLoopTimer?

    /// - Parameters:
    ///   - thread: the thread of the transfer, on which everything here is called, except for what the lock guards.
    ///   - proceed: called on the thread when there is enough to go on.
    init(at limit: RateLimit, thread: NetworkThread, proceed: @escaping @Sendable () -> Void) {
        self.limit = limit
        self.thread = thread
        self.proceed = proceed
    }

    /// Lets the transfer go on. Any thread.
    func wake() { thread.perform { self.proceed() } }

    /// Lets the limit serve its line at a time. Any thread.
    func serveLimit(at deadline: MonotonicTime) {
        if thread.runLoop?.isCurrent == true { return setTimer(to: deadline) }
        thread.perform { self.setTimer(to: deadline) }
    }

    private func setTimer(to deadline: MonotonicTime) {
        let timer = timer ?? RunLoopTimer { [limit] in limit.serve() }
        self.timer = timer
        thread.runLoop?.schedule(timer, at: deadline)
    }

    func cancelTimer() {
        if let timer { thread.runLoop?.cancel(timer) }
    }
}
