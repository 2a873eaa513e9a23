import Foundation

/// Nanoseconds on the monotonic clock.
package typealias MonotonicTime = UInt64

/// The clock for timeouts and deadlines, which is independent of the date and never goes back.
package enum MonotonicClock {
    /// The time now.
    package static var now: MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

/// The start of something that is measured: its date, and its time on the monotonic clock.
package struct StartMoment: Sendable {
    /// The date.
    package let date: Date
    /// The time on the monotonic clock.
    package let time: MonotonicTime

    /// The moment now.
    package static var now: StartMoment { StartMoment(date: Date(), time: MonotonicClock.now) }

    /// The current time, where the date does not matter.
    package static var timeNow: MonotonicTime { MonotonicClock.now }

    /// Seconds until a later time, or 0 if it is not later.
    package func seconds(until end: MonotonicTime) -> TimeInterval { Self.seconds(from: time, to: end) }

    /// Seconds between two times, rounded to a multiple of 2⁻²⁰ s, about a microsecond, so that differences and sums
    /// are exact. 0 if the second time is not later.
    package static func seconds(from start: MonotonicTime, to end: MonotonicTime) -> TimeInterval {
        guard end > start else { return 0 }
        return (Double(end - start) * (1_048_576 / 1e9)).rounded() / 1_048_576
    }
}

/// Converts numbers from users and servers to times in nanoseconds, without trapping or overflow.
package enum Nanoseconds {
    /// The longest duration, nearly 32 years: practically forever, but small enough to be added to any time on a
    /// monotonic clock.
    package static let longest: UInt64 = 1_000_000_000_000_000_000

    /// The latest deadline that Dispatch supports. The two bits above select a clock, so a larger number would be taken
    /// for a time in the past.
    package static let latestDispatchTime: UInt64 = 1 << 62 - 1

    /// Converts seconds; 0 for a negative number or NaN, `longest` for a larger or infinite one.
    package static func clamping(seconds: TimeInterval) -> UInt64 {
        guard seconds > 0 else { return 0 }
        return seconds < TimeInterval(longest) / 1e9 ? UInt64(seconds * 1e9) : longest
    }

    /// The time that many seconds after another, or the largest number.
    package static func deadline(_ seconds: TimeInterval, after now: UInt64) -> UInt64 {
        let (deadline, overflow) = now.addingReportingOverflow(clamping(seconds: seconds))
        return overflow ? .max : deadline
    }

    /// How many seconds have passed between two times; 0 if they are in the wrong order.
    package static func seconds(from start: UInt64, to end: UInt64) -> TimeInterval {
        end > start ? TimeInterval(end - start) / 1e9 : 0
    }
}
