import Foundation

/// Parses and formats HTTP dates (RFC 9110, section 5.6.7).
///
/// Parsing never traps or overflows: each field is checked before use, and years have at most four digits. It is
/// lenient if the meaning is clear: names may be in any case, the weekday may be wrong, the day of the month may lack
/// its leading zero, `UTC` may replace `GMT`, the format with dashes may have a four-digit year, and extra spaces are
/// allowed. Other time zones are rejected.
package enum HTTPDate {
    /// Returns the seconds since 1970 of a date in one of the three formats, or nil for any other text.
    ///
    ///     Sun, 06 Nov 1994 08:49:37 GMT     IMF-fixdate
    ///     Sunday, 06-Nov-94 08:49:37 GMT    RFC 850
    ///     Sun Nov  6 08:49:37 1994          asctime
    ///
    /// - Parameter now: The reference time for two-digit years, in seconds since 1970.
    package static func parse(_ text: String, now: Int64 = Int64(time(nil))) -> Int64? {
        guard text.utf8.count <= longestText else { return nil }
        if let seconds = fixdate(text) { return seconds }
        let words = text.utf8.split(separator: UInt8(ascii: " "))
        switch words.count {
        case 6:
            guard isDayName(words[0], endsInComma: true), isGreenwich(words[5]) else { return nil }
            return seconds(words[1], words[2], year: words[3], words[4], now)
        case 4:
            let date = words[1].split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
            guard date.count == 3, isDayName(words[0], endsInComma: true), isGreenwich(words[3]) else { return nil }
            return seconds(date[0], date[1], year: date[2], words[2], now)
        case 5:
            guard isDayName(words[0], endsInComma: false), words[4].count == 4 else { return nil }
            return seconds(words[2], words[1], year: words[4], words[3], now)
        default: return nil
        }
    }

    /// Returns the IMF-fixdate of a time in seconds since 1970: `Sun, 06 Nov 1994 08:49:37 GMT`.
    ///
    /// The year has four digits. Times before the year 0 or after 9999 are clamped.
    package static func string(_ seconds: Int64) -> String {
        guard let fields = UTCFields(min(max(seconds, firstSecond), lastSecond)) else { return string(0) }
        return fields.text("\(days[fields.weekday].prefix(3)), %d \(months[fields.month]) %04Y %H:%M:%S GMT")
    }

    // MARK: Foundation's type

    /// Parses an HTTP date as a `Date`.
    package static func date(_ text: String) -> Date? {
        parse(text).map { Date(timeIntervalSince1970: TimeInterval($0)) }
    }

    /// Formats a `Date`, rounded down to whole seconds.
    package static func string(_ date: Date) -> String {
        let seconds = date.timeIntervalSince1970.rounded(.down)
        guard seconds > TimeInterval(firstSecond) else { return string(firstSecond) }
        return string(seconds < TimeInterval(lastSecond) ? Int64(seconds) : lastSecond)
    }

    // MARK: Parsing

    private typealias Field = Substring.UTF8View

    /// The maximum length of a date, in bytes: twice that of the longest format.
    private static let longestText = 64
    /// The first second of the year 0, and the last second of the year 9999.
    private static let (firstSecond, lastSecond): (Int64, Int64) = (-62_167_219_200, 253_402_300_799)

    private static let days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func seconds(_ day: Field, _ month: Field, year: Field, _ clock: Field, _ now: Int64) -> Int64? {
        let time = clock.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        guard time.count == 3,
            let month = months.firstIndex(where: { isName(month, $0) }),
            let day = number(day, digits: 1...2), (1...31).contains(day),
            let hour = number(time[0], digits: 2...2), hour <= 23,
            let minute = number(time[1], digits: 2...2), minute <= 59,
            // A value of 60 denotes a leap second.
            let second = number(time[2], digits: 2...2), second <= 60,
            let number = number(year, digits: year.count == 2 ? 2...2 : 4...4)
        else { return nil }
        func inYear(_ year: Int32) -> Int64? {
            UTCFields.midnight(year: year, month: Int32(month), day: day)
                .map { $0 + Int64(hour) * 3600 + Int64(minute) * 60 + Int64(second) }
        }
        return year.count == 2 ? latest(number, before: limit(now), inYear) : inYear(number)
    }

    // MARK: Two-digit years

    /// Returns the latest time, not after the limit, in a year that ends in the given two digits.
    private static func latest(
        _ digits: Int32, before limit: (time: Int64, year: Int32), _ inYear: (Int32) -> Int64?
    ) -> Int64? {
        let century = limit.year / 100 * 100
        for year in [century + digits, century - 100 + digits] {
            if let time = inYear(year), time <= limit.time { return time }
        }
        return nil
    }

    /// Returns the time fifty years from now. A two-digit year after that time belongs to the previous century.
    private static func limit(_ now: Int64) -> (time: Int64, year: Int32) {
        guard let fields = UTCFields(min(max(now, 0), lastSecond)) else { return (0, 2020) }
        return (fields.adding(years: 50), Int32(fields.year + 50))
    }

    // MARK: IMF-fixdate

    /// Parses the exact IMF-fixdate format, which nearly all dates have; nil for other text.
    private static func fixdate(_ text: String) -> Int64? {
        var text = text
        return text.withUTF8 { bytes -> Int64? in
            guard bytes.count == 29, bytes[3] == UInt8(ascii: ","), bytes[19] == UInt8(ascii: ":"),
                bytes[22] == UInt8(ascii: ":"), [4, 7, 11, 16, 25].allSatisfy({ bytes[$0] == UInt8(ascii: " ") })
            else { return nil }
            func name(_ position: Int) -> UInt32 {
                UInt32(bytes[position]) << 16 | UInt32(bytes[position + 1]) << 8 | UInt32(bytes[position + 2])
            }
            func number(_ position: Int) -> Int32? {
                let (tens, ones) = (bytes[position] &- UInt8(ascii: "0"), bytes[position + 1] &- UInt8(ascii: "0"))
                return tens < 10 && ones < 10 ? Int32(tens) * 10 + Int32(ones) : nil
            }
            guard name(26) == Self.name("GMT"), shortDays.contains(name(0)), let month = shortMonths.firstIndex(of: name(8)),
                let day = number(5), day > 0, let century = number(12), let year = number(14),
                let hour = number(17), hour <= 23, let minute = number(20), minute <= 59, let second = number(23),
                second <= 60
            else { return nil }
            return UTCFields.midnight(year: century * 100 + year, month: Int32(month), day: day)
                .map { $0 + Int64(hour) * 3600 + Int64(minute) * 60 + Int64(second) }
        }
    }

    private static func name(_ text: String) -> UInt32 { text.utf8.prefix(3).reduce(0) { $0 << 8 | UInt32($1) } }

    private static let shortDays = days.map(name)
    private static let shortMonths = months.map(name)

    // MARK: Words

    private static func number(_ word: Field, digits: ClosedRange<Int>) -> Int32? {
        guard digits.contains(word.count) else { return nil }
        var value: Int32 = 0
        for byte in word {
            guard ASCII.isDigit(byte) else { return nil }
            value = value * 10 + Int32(byte - UInt8(ascii: "0"))
        }
        return value
    }

    private static func isDayName(_ word: Field, endsInComma: Bool) -> Bool {
        guard endsInComma == (word.last == UInt8(ascii: ",")) else { return false }
        let name = endsInComma ? word.dropLast() : word
        return days.contains { isName(name, $0) || isName(name, String($0.prefix(3))) }
    }

    private static func isGreenwich(_ word: Field) -> Bool { isName(word, "GMT") || isName(word, "UTC") }

    private static func isName(_ word: Field, _ name: String) -> Bool {
        ASCII.equalIgnoringCase(word, name.utf8)
    }
}
