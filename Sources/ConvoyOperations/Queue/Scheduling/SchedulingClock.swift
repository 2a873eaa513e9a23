import ConvoySupport
import Foundation

/// The monotonic clock of a queue, in nanoseconds. Replaced in tests.
package protocol SchedulingClock: Sendable {
    /// The time since some fixed moment in the past.
    var now: UInt64 { get }

    /// Calls `block` once, on any thread, when `now` has reached `deadline` or later.
    func schedule(at deadline: UInt64, _ block: @escaping @Sendable () -> Void)
}

extension SchedulingClock {
    /// The date at which the clock reaches a time in nanoseconds; now if it has passed.
    func date(of deadline: UInt64) -> Date {
        let now = self.now
        return Date(timeIntervalSinceNow: deadline > now ? Double(deadline - now) / 1e9 : 0)
    }
}

/// The system's monotonic clock, with Dispatch's timers.
package struct MonotonicClock: SchedulingClock {
    package init() {}

    package var now: UInt64 { DispatchTime.now().uptimeNanoseconds }

    package func schedule(at deadline: UInt64, _ block: @escaping @Sendable () -> Void) {
        let time = DispatchTime(uptimeNanoseconds: min(deadline, Nanoseconds.latestDispatchTime))
        DispatchQueue.global().asyncAfter(deadline: time, execute: block)
    }
}
