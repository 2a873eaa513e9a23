import Foundation

/// Converts times. A store counts microseconds since 1970.
enum CookieTime {
    static let second: Int64 = 1_000_000
    /// The latest time that is kept: in the year 9999. All earlier ones can be added to without overflow.
    static let latest: Int64 = 253_402_300_799 * second
    /// The latest time of a change. Later ones are damage: they would come after whatever is changed from then on.
    static let latestChange = latest - longestAge
    /// No cookie is kept for longer (RFC 6265bis, section 5.5).
    static let longestAge: Int64 = 400 * 86_400 * second

    static func microseconds(_ date: Date) -> Int64 {
        let seconds = date.timeIntervalSince1970
        guard seconds > 0 else { return 0 }  // also if it is not a number
        return seconds < Double(latest / second) ? Int64((seconds * 1_000_000).rounded()) : latest
    }

    static func date(_ microseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(microseconds) / 1_000_000) }

    static func microseconds(seconds: Int64) -> Int64 { min(max(seconds, 0), latest / second) * second }

    @Sendable static func now() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return min(max(Int64(time.tv_sec), 0), latest / second) * second + Int64(time.tv_nsec) / 1000
    }
}
