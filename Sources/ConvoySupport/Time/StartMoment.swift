import Foundation

/// When something began that is measured: by the date of the system, once, and by the clock that never goes back.
package struct StartMoment: Sendable {
    /// The date.
    package let date: Date
    /// The time on the monotonic clock.
    package let time: MonotonicTime

    /// The moment now.
    package static var now: StartMoment { StartMoment(date: Date(), time: MonotonicClock.now) }

    /// The time now, where the date does not matter.
    package static var timeNow: MonotonicTime { MonotonicClock.now }

    /// Seconds until a later time, or 0 if it is not later.
    package func seconds(until end: MonotonicTime) -> TimeInterval { Self.seconds(from: time, to: end) }

    /// Seconds between two times, as a multiple of 2⁻²⁰ s, about a microsecond: differences of such numbers and their sums
    /// are exact. 0 if the second one is not later.
    package static func seconds(from start: MonotonicTime, to end: MonotonicTime) -> TimeInterval {
        guard end > start else { return 0 }
        return (Double(end - start) * (1_048_576 / 1e9)).rounded() / 1_048_576
    }
}
