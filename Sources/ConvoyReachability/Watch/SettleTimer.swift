import ConvoySupport

/// When to look at a network that has begun to change: once it is quiet, so that what is true for a moment only is not
/// reported; but not later than after a while, for there are machines that are never quiet.
struct SettleTimer {
    /// In nanoseconds, without a change.
    static let quiet: UInt64 = 100_000_000
    /// In nanoseconds, since the first change.
    static let longest: UInt64 = 700_000_000

    private var first: MonotonicTime?
    private var last: MonotonicTime = 0
    private var retry: MonotonicTime?

    /// Something has changed.
    mutating func note(at now: MonotonicTime) {
        if first == nil { first = now }
        last = now
    }

    /// What the network is like could not be found out.
    mutating func noteFailure(at now: MonotonicTime) { retry = now + 1_000_000_000 }

    /// When to look; nil if nothing has changed.
    var deadline: MonotonicTime? {
        let settled = first.map { min(last + Self.quiet, $0 + Self.longest) }
        return [settled, retry].compactMap { $0 }.min()
    }

    /// Somebody looks now.
    mutating func reset() { (first, retry) = (nil, nil) }
}
