import Foundation

/// The fixed-length date of RFC 9110 section 5.6.7, "Sun, 06 Nov 1994 08:49:37 GMT".
enum HTTPDate {
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// The date as text. Fractions of a second are cut off; the text of a date before 1970 is that of 1970.
    static func string(_ date: Date) -> String {
        let seconds = min(max(0, date.timeIntervalSince1970), 253_402_300_799)
        let total = Int(seconds)
        let day = total / 86_400, rest = total % 86_400
        let (year, month, dayOfMonth) = civil(day)
        let time = [rest / 3600, rest / 60 % 60, rest % 60].map { twoDigits($0) }.joined(separator: ":")
        let digits = String(year)
        let fourDigits = String(repeating: "0", count: max(0, 4 - digits.count)) + digits
        return "\(days[day % 7]), \(twoDigits(dayOfMonth)) \(months[month - 1]) \(fourDigits) \(time) GMT"
    }

    /// The date of such a text; nil for anything else, the two obsolete forms included.
    static func date(_ text: String) -> Date? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let day = Int(words[1]), (1...31).contains(day),
            let month = months.firstIndex(of: String(words[2])), let year = Int(words[3]), (1970...9999).contains(year)
        else { return nil }
        let time = words[4].split(separator: ":").compactMap { Int($0) }
        guard time.count == 3, (0...23).contains(time[0]), (0...59).contains(time[1]), (0...60).contains(time[2]) else {
            return nil
        }
        let total = dayNumber(year, month + 1, day) * 86_400 + time[0] * 3600 + time[1] * 60 + time[2]
        return Date(timeIntervalSince1970: TimeInterval(total))
    }

    private static func twoDigits(_ number: Int) -> String {
        number < 10 ? "0\(number)" : String(number)
    }

    /// Days since 1970 of a date of the Gregorian calendar, with years that begin in March so that leap days come last.
    private static func dayNumber(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let y = month > 2 ? year : year - 1
        let m = month > 2 ? month - 3 : month + 9
        return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719_468
    }

    private static func civil(_ number: Int) -> (year: Int, month: Int, day: Int) {
        var year = 1970 + number / 366
        while dayNumber(year + 1, 1, 1) <= number { year += 1 }
        var month = 12
        while month > 1, dayNumber(year, month, 1) > number { month -= 1 }
        return (year, month, number - dayNumber(year, month, 1) + 1)
    }
}
