import ConvoySupport
import Foundation
import Synchronization

/// The numbers of stored responses.
///
/// They grow with the time, so that rows are appended to the index; numbers at random would change a page of it for each
/// response. A random part keeps those of several processes apart that store in the same microsecond. Where two have the
/// same all the same, the second is not stored.
enum EntryNumber {
    private static let last = Atomic<Int64>(0)

    /// A number that this process has not given before.
    static func next() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        // Since 2020, and for 35 years.
        let microseconds = (Int64(clamping: time.tv_sec) - 1_577_836_800) * 1_000_000 + Int64(time.tv_nsec) / 1000
        let candidate = (max(0, microseconds) % (1 << 50)) << 12 | Int64.random(in: 0..<4096)
        var previous = last.load(ordering: .relaxed)
        while true {
            let number = max(candidate, previous + 1)
            let (isExchanged, current) = last.compareExchange(expected: previous, desired: number, ordering: .relaxed)
            if isExchanged { return number }
            previous = current
        }
    }
}
