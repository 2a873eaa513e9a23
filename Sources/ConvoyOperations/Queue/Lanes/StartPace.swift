import ConvoySupport

/// The times at which operations may start under a ``StartRate``, in nanoseconds of the queue's clock.
///
/// All that must be remembered of the starts so far is one time: when the rate would have allowed as many, without a
/// burst. (This is the generic cell rate algorithm: a token bucket that need not be filled.)
struct StartPace {
    let rate: StartRate
    private let interval: UInt64
    /// How much earlier than the rate would allow it something may start.
    private let slack: UInt64

    init(_ rate: StartRate) {
        self.rate = rate
        interval = Nanoseconds.clamping(seconds: 1 / rate.startsPerSecond)
        let (slack, overflow) = interval.multipliedReportingOverflow(by: UInt64(rate.burst - 1))
        self.slack = overflow ? Nanoseconds.longest : min(slack, Nanoseconds.longest)
    }

    /// What is to be remembered after a start.
    ///
    /// - Parameter due: what was remembered before; 0 for nothing.
    func due(after due: UInt64, startAt now: UInt64) -> UInt64 { Self.sum(max(due, now), interval) }

    /// What is to be remembered when this rate takes the place of another: no more than after a whole burst.
    func due(limiting due: UInt64, at now: UInt64) -> UInt64 { min(due, Self.sum(Self.sum(now, slack), interval)) }

    /// When the next one may start; 0 for now.
    func nextStart(_ due: UInt64, at now: UInt64) -> UInt64 {
        let time = due > slack ? due - slack : 0
        return time > now ? time : 0
    }

    private static func sum(_ first: UInt64, _ second: UInt64) -> UInt64 {
        let (sum, overflow) = first.addingReportingOverflow(second)
        return overflow ? .max : sum
    }
}
