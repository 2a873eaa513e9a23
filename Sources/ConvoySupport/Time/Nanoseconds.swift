import Foundation

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
