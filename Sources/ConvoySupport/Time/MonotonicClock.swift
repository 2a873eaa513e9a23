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
