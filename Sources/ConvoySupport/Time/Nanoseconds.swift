import Foundation

/// Times in nanoseconds, made of numbers that a user or a server has chosen. None of them traps or wraps.
package enum Nanoseconds {
    /// The longest time that there is, nearly 32 years: as good as forever, and so far from the end of the numbers
    /// that it can be added to any time on a monotonic clock.
    package static let longest: UInt64 = 1_000_000_000_000_000_000

    /// The latest deadline that Dispatch understands: the two bits above say of which clock it is, and a greater
    /// number is a moment that has passed.
    package static let latestDispatchTime: UInt64 = 1 << 62 - 1

    /// So many seconds; 0 for a negative number and for no number, `longest` for a greater or infinite one.
    package static func clamping(seconds: TimeInterval) -> UInt64 {
        guard seconds > 0 else { return 0 }
        return seconds < TimeInterval(longest) / 1e9 ? UInt64(seconds * 1e9) : longest
    }

    /// The time so many seconds after another, or the last that there is.
    package static func deadline(_ seconds: TimeInterval, after now: UInt64) -> UInt64 {
        let (deadline, overflow) = now.addingReportingOverflow(clamping(seconds: seconds))
        return overflow ? .max : deadline
    }

    /// How many seconds have passed between two times; 0 if they are in the wrong order.
    package static func seconds(from start: UInt64, to end: UInt64) -> TimeInterval {
        end > start ? TimeInterval(end - start) / 1e9 : 0
    }
}
