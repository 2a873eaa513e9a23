import Foundation

/// Dates in expressions, in the formats of strftime(3) and in UTC unless the text has an offset.
enum ExpressionDate {
    /// The maximum distance from 1970, in seconds: about the years -6000 to 9900.
    private static let maximum = 2.5e11

    /// The formats of RFC 3339 and HTTP (RFC 9110, section 5.6.7).
    private static let standardFormats = [
        "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d",
        "%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y",
    ]

    /// Returns a date for the text of RFC 3339 or HTTP; nil for any other text.
    static func date(_ text: String) -> Date? {
        let text = text.trimmingCharacters(in: .whitespaces)
        return standardFormats.lazy.compactMap { date(text, format: $0, isStrict: true) }.first
    }

    /// Returns a date for a text in a format; nil if it does not match.
    ///
    /// - Parameter isStrict: Whether numbers must have all their digits, and names of months and days the given length.
    static func date(_ text: String, format: String, isStrict: Bool = false) -> Date? {
        // A valid date is short.
        guard text.utf8.count <= 200, format.utf8.count <= 200 else { return nil }
        var reader = Reader(rest: Array(text.utf8)[...], isStrict: isStrict)
        guard reader.read(Array(format.utf8)[...]), reader.rest.isEmpty else { return nil }
        return reader.date
    }

    static func text(of date: Date, format: String = "%Y-%m-%dT%H:%M:%SZ") -> String {
        var time = time_t(date.timeIntervalSince1970.rounded(.down)), parts = tm()
        guard gmtime_r(&time, &parts) != nil else { return "" }
        var buffer = [CChar](repeating: 0, count: 4096)
        // The result is empty if it does not fit.
        let length = strftime(&buffer, buffer.count, withSeconds(format, time), &parts)
        return String(decoding: buffer.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Returns a format with the seconds since 1970 instead of `%s`, for which strftime(3) uses the local time zone.
    private static func withSeconds(_ format: String, _ time: time_t) -> String {
        guard format.contains("%") else { return format }
        var result = "", rest = format.unicodeScalars[...]
        while let percent = rest.firstIndex(of: "%") {
            result.unicodeScalars.append(contentsOf: rest[..<percent])
            // A flag, a width or a modifier may precede the letter.
            let middle = rest[percent...].dropFirst().prefix { "_-0^#+123456789EO".unicodeScalars.contains($0) }
            let end = middle.endIndex < rest.endIndex ? rest.index(after: middle.endIndex) : rest.endIndex
            if middle.endIndex < rest.endIndex, rest[middle.endIndex] == "s" {
                result += "\(time)"
            } else {
                result.unicodeScalars.append(contentsOf: rest[percent..<end])
            }
            rest = rest[end...]
        }
        result.unicodeScalars.append(contentsOf: rest)
        return result
    }

    /// Returns the date that many seconds after 1970; nil if it is too far away.
    static func date(secondsSince1970 seconds: Double) -> Date? {
        guard abs(seconds) <= maximum else { return nil }
        return Date(timeIntervalSince1970: seconds)
    }

    /// A reader for a date in a format.
    private struct Reader {
        private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
        private static let fullMonths = [
            "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
            "december",
        ]
        private static let days = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
        private static let fullDays = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]

        var rest: ArraySlice<UInt8>
        private var year = 1970
        private var month = 1
        private var day = 1
        private var hour = 0
        private var minute = 0
        private var second = 0.0
        private var isAfternoon: Bool?
        private var offset = 0.0
        private var epoch: Double?

        private let isStrict: Bool

        init(rest: ArraySlice<UInt8>, isStrict: Bool) {
            self.rest = rest
            self.isStrict = isStrict
        }

        var date: Date? {
            if let epoch { return ExpressionDate.date(secondsSince1970: epoch) }
            let lengths =
                [31, year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30]
                + [31, 30, 31]
            guard day <= lengths[month - 1] else { return nil }
            var hour = hour
            if let isAfternoon {
                guard (1...12).contains(hour) else { return nil }
                hour = hour % 12 + (isAfternoon ? 12 : 0)
            }
            var parts = tm()
            parts.tm_year = Int32(year - 1900)
            parts.tm_mon = Int32(month - 1)
            parts.tm_mday = Int32(day)
            parts.tm_hour = Int32(hour)
            parts.tm_min = Int32(minute)
            return ExpressionDate.date(secondsSince1970: Double(timegm(&parts)) + second - offset)
        }

        /// Reads a format, and returns whether the text matches.
        mutating func read(_ format: ArraySlice<UInt8>) -> Bool {
            var format = format
            while let byte = format.popFirst() {
                guard byte == UInt8(ascii: "%") else {
                    guard rest.popFirst() == byte else { return false }
                    continue
                }
                guard let code = format.popFirst(), read(code: code) else { return false }
            }
            return true
        }

        private mutating func read(code: UInt8) -> Bool {
            switch UnicodeScalar(code) {
            case "Y": return take(\.year, digits: (isStrict ? 4 : 1)...4, 0...9999)
            case "y":
                guard take(\.year, digits: 2...2, 0...99) else { return false }
                year += year < 69 ? 2000 : 1900
                return true
            case "m": return take(\.month, digits: two, 1...12)
            case "d": return take(\.day, digits: two, 1...31)
            case "e":
                guard rest.first == UInt8(ascii: " ") else { return take(\.day, digits: two, 1...31) }
                rest.removeFirst()
                return take(\.day, digits: isStrict ? 1...1 : 1...2, 1...31)
            case "H": return take(\.hour, digits: two, 0...23)
            case "I": return take(\.hour, digits: two, 1...12)
            case "M": return take(\.minute, digits: two, 0...59)
            case "S": return takeSecond()
            case "p":
                guard let index = take(["am", "pm"]) else { return false }
                isAfternoon = index == 1
                return true
            case "b", "B", "h":
                guard let index = (isStrict ? nil : take(Self.fullMonths)) ?? take(Self.months) else { return false }
                month = index + 1
                return true
            case "a" where isStrict: return take(Self.days) != nil
            case "A" where isStrict: return take(Self.fullDays) != nil
            case "a", "A": return (take(Self.fullDays) ?? take(Self.days)) != nil
            case "F": return read(Array("%Y-%m-%d".utf8)[...])
            case "T": return read(Array("%H:%M:%S".utf8)[...])
            case "R": return read(Array("%H:%M".utf8)[...])
            case "D": return read(Array("%m/%d/%y".utf8)[...])
            case "s":
                let isNegative = rest.first == UInt8(ascii: "-")
                if isNegative { rest.removeFirst() }
                guard let seconds = number(digits: 1...12, 0...Int.max) else { return false }
                epoch = Double(isNegative ? -seconds : seconds)
                return true
            case "z": return takeOffset()
            case "Z": return take(["utc", "gmt", "z"]) != nil
            case "%": return rest.popFirst() == code
            default: return false
            }
        }

        /// The accepted lengths of a number of two digits.
        private var two: ClosedRange<Int> { isStrict ? 2...2 : 1...2 }

        private mutating func take(
            _ part: WritableKeyPath<Reader, Int>, digits: ClosedRange<Int>, _ range: ClosedRange<Int>
        ) -> Bool {
            guard let number = number(digits: digits, range) else { return false }
            self[keyPath: part] = number
            return true
        }

        private mutating func number(digits: ClosedRange<Int>, _ range: ClosedRange<Int>) -> Int? {
            let found = rest.prefix(digits.upperBound).prefix { (0x30...0x39).contains($0) }
            guard found.count >= digits.lowerBound, let number = Int(String(decoding: found, as: UTF8.self)),
                range.contains(number)
            else { return nil }
            rest = rest.dropFirst(found.count)
            return number
        }

        /// Reads seconds with an optional fraction. 60 is a leap second.
        private mutating func takeSecond() -> Bool {
            guard let whole = number(digits: two, 0...60) else { return false }
            second = Double(whole)
            guard rest.first == UInt8(ascii: ".") else { return true }
            let digits = rest.dropFirst().prefix { (0x30...0x39).contains($0) }
            guard !digits.isEmpty else { return true }
            second += Double("0.\(String(decoding: digits, as: UTF8.self))") ?? 0
            rest = rest.dropFirst(digits.count + 1)
            return true
        }

        /// Reads `Z`, `+hh:mm` or `+hhmm`.
        private mutating func takeOffset() -> Bool {
            guard let sign = rest.popFirst() else { return false }
            if sign | 0x20 == UInt8(ascii: "z") { return true }
            guard sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-"), let hours = number(digits: 2...2, 0...23) else {
                return false
            }
            if rest.first == UInt8(ascii: ":") { rest.removeFirst() }
            guard let minutes = number(digits: 2...2, 0...59) else { return false }
            offset = Double(hours * 3600 + minutes * 60) * (sign == UInt8(ascii: "-") ? -1 : 1)
            return true
        }

        /// Reads a word, ignoring case, and returns its index.
        private mutating func take(_ words: [String]) -> Int? {
            for (index, word) in words.enumerated()
            where rest.count >= word.utf8.count && zip(rest, word.utf8).allSatisfy({ $0 | 0x20 == $1 }) {
                rest = rest.dropFirst(word.utf8.count)
                return index
            }
            return nil
        }
    }
}
