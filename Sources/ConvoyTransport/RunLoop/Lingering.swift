import ConvoySupport

/// How long a run loop looks for what comes back before it sleeps, after it has handed something to another thread.
///
/// Who has just been handed a response often has the next request at once, and to be woken for it takes longer than to
/// wait a moment, and costs a system call on each side. How long it usually takes is learned; where it takes too long,
/// nobody waits. All times in nanoseconds.
struct Lingering {
    /// No longer than this: it is the time of a processor.
    static let limit: MonotonicTime = 100_000

    /// How long it has taken of late.
    private(set) var expected: MonotonicTime = 30_000
    private var began: MonotonicTime = 0
    /// Until when to look; 0 for not at all.
    private var end: MonotonicTime = 0

    /// Something has been handed over, and there is nothing else to do.
    mutating func begin(at now: MonotonicTime) {
        began = now
        end = expected > Self.limit ? 0 : now + min(Self.limit, expected + expected / 2)
    }

    /// Whether to look again rather than to sleep.
    mutating func goesOn(at now: @autoclosure () -> MonotonicTime) -> Bool {
        guard end != 0 else { return false }
        if now() < end { return true }
        end = 0
        return false
    }

    /// Something has come from another thread.
    mutating func noteArrival(at time: @autoclosure () -> MonotonicTime) {
        guard began != 0 else { return }
        let now = time()
        // What comes after a long time was not an answer, and says no more than that.
        let took = min(now > began ? now - began : 0, 4 * Self.limit)
        expected = (7 * expected + took) / 8
        began = 0
        end = 0
    }
}
