import ConvoySupport

/// How long a run loop polls its inbox before it sleeps, after it has handed something to another thread.
///
/// A handler that gets a response often sends the next request at once. Polling for it for a moment takes less time
/// than being woken, which costs a system call on each side. The usual delay is learned; if it is too long, the loop
/// does not poll. All times in nanoseconds.
struct Lingering {
    /// The longest time to poll, as it uses a processor.
    static let limit: MonotonicTime = 100_000

    /// A moving average of the recent delays.
    private(set) var expected: MonotonicTime = 30_000
    private var began: MonotonicTime = 0
    /// Until when to poll; 0 for not at all.
    private var end: MonotonicTime = 0

    /// Begins to poll: something has been handed over, and there is nothing else to do.
    mutating func begin(at now: MonotonicTime) {
        began = now
        end = expected > Self.limit ? 0 : now + min(Self.limit, expected + expected / 2)
    }

    /// Whether to poll again instead of sleeping.
    mutating func goesOn(at now: @autoclosure () -> MonotonicTime) -> Bool {
        guard end != 0 else { return false }
        if now() < end { return true }
        end = 0
        return false
    }

    /// Notes that something has come from another thread.
    mutating func noteArrival(at time: @autoclosure () -> MonotonicTime) {
        guard began != 0 else { return }
        let now = time()
        // What comes after a long time was not an answer, so its delay is capped.
        let took = min(now > began ? now - began : 0, 4 * Self.limit)
        expected = (7 * expected + took) / 8
        began = 0
        end = 0
    }
}
