import Foundation

/// A time on the monotonic clock, in nanoseconds.
package typealias MonotonicTime = UInt64

/// The clock for timeouts and deadlines. It is independent of the wall-clock time and never goes backwards.
package enum MonotonicClock {
    /// The current time.
    package static var now: MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

/// The clocks of the system that survive the process, in microseconds.
package enum SystemClock {
    /// The time since 1970, which jumps when the clock is set.
    package static var wall: Int64 { read(CLOCK_REALTIME) }
    /// The time since boot, including sleep. It never jumps, but is meaningless after the next boot.
    package static var up: Int64 { read(CLOCK_BOOTTIME) }

    /// The kernel's identifier of this boot; if it is unavailable, a random number, which no stored identifier equals.
    package static let boot: Int64 = {
        guard let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8),
            let id = UUID(uuidString: String(text.prefix(36)))
        else { return .random(in: 1 ... .max) }
        return withUnsafeBytes(of: id.uuid) { $0.loadUnaligned(as: Int64.self) }
    }()

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }
}

/// The start of a measurement: its date, and its time on the monotonic clock.
package struct StartMoment: Sendable {
    /// The date on the system clock, which may be set back later.
    package let date: Date
    /// The time on the monotonic clock.
    package let time: MonotonicTime

    /// The current moment.
    package static var now: StartMoment { StartMoment(date: Date(), time: MonotonicClock.now) }

    /// The current monotonic time, if the date is not needed.
    package static var timeNow: MonotonicTime { MonotonicClock.now }

    /// Returns the number of seconds until a later time, or 0 if the time is not later.
    package func seconds(until end: MonotonicTime) -> TimeInterval { Self.seconds(from: time, to: end) }

    /// Returns the number of seconds between two times, rounded to a multiple of 2⁻²⁰ s (about a microsecond), so that
    /// differences and sums are exact. Returns 0 if the second time is not later.
    package static func seconds(from start: MonotonicTime, to end: MonotonicTime) -> TimeInterval {
        guard end > start else { return 0 }
        return (Double(end - start) * (1_048_576 / 1e9)).rounded() / 1_048_576
    }
}

/// Converts numbers from users and servers to nanoseconds, without trapping or overflow.
package enum Nanoseconds {
    /// The longest duration, nearly 32 years: practically infinite, but small enough to be added to any monotonic time.
    package static let longest: UInt64 = 1_000_000_000_000_000_000

    /// The latest deadline that Dispatch supports. The two highest bits select a clock, so a larger number would be
    /// interpreted as a time in the past.
    package static let latestDispatchTime: UInt64 = 1 << 62 - 1

    /// Converts seconds to nanoseconds, clamped to 0…``longest``. NaN becomes 0.
    package static func clamping(seconds: TimeInterval) -> UInt64 {
        guard seconds > 0 else { return 0 }
        return seconds < TimeInterval(longest) / 1e9 ? UInt64(seconds * 1e9) : longest
    }

    /// Returns the time the given number of seconds after another time, or the maximum value on overflow.
    package static func deadline(_ seconds: TimeInterval, after now: UInt64) -> UInt64 {
        let (deadline, overflow) = now.addingReportingOverflow(clamping(seconds: seconds))
        return overflow ? .max : deadline
    }

    /// Returns the number of seconds between two times, or 0 if they are in the wrong order.
    package static func seconds(from start: UInt64, to end: UInt64) -> TimeInterval {
        end > start ? TimeInterval(end - start) / 1e9 : 0
    }
}
