import Foundation

/// Dates in HTTP's own form, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
enum HTTPDate {
    /// Seconds since 1970.
    static func parse(_ text: String) -> Int? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let day = Int(parts[1]), let year = Int(parts[3]),
            let month = months.firstIndex(of: String(parts[2]))
        else { return nil }
        let clock = parts[4].split(separator: ":").compactMap { Int($0) }
        guard clock.count == 3 else { return nil }
        var fields = tm()
        fields.tm_mday = Int32(truncatingIfNeeded: day)
        fields.tm_mon = Int32(month)
        fields.tm_year = Int32(truncatingIfNeeded: year - 1900)
        fields.tm_hour = Int32(truncatingIfNeeded: clock[0])
        fields.tm_min = Int32(truncatingIfNeeded: clock[1])
        fields.tm_sec = Int32(truncatingIfNeeded: clock[2])
        return timegm(&fields)
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
