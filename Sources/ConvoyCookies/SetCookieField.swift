import ConvoySupport
import Foundation

/// A parsed `Set-Cookie` field (RFC 6265bis, section 5.6).
struct SetCookieField: Hashable {
    var name: [UInt8]
    var value: [UInt8]
    /// The time of expiry, in seconds since 1970.
    var expires: Int64?
    /// The value of `Max-Age`, in seconds, clamped.
    var maximumAge: Int64?
    /// The domain without its leading dot. nil or empty if the attribute is missing or empty.
    var domain: [UInt8]?
    /// The path as sent; nil if the attribute is missing.
    var path: [UInt8]?
    var isSecure = false
    var isHTTPOnly = false
    var sameSite = Cookie.SameSite.unspecified

    /// The maximum total size of the name and the value, in bytes.
    static let largestPair = 4096
    /// The maximum size of an attribute's value, in bytes. Larger values are ignored.
    static let largestAttribute = 1024

    init(_ bytes: some Collection<UInt8>) throws(CookieRefusal) {
        let bytes = Array(bytes)
        guard !bytes.contains(where: Self.isControl) else { throw .invalidCharacter }
        let end = bytes.firstIndex(of: UInt8(ascii: ";")) ?? bytes.endIndex
        let pair = bytes[..<end]
        if let equals = pair.firstIndex(of: UInt8(ascii: "=")) {
            name = Self.trimmed(pair[..<equals])
            value = Self.trimmed(pair[(equals + 1)...])
        } else {
            name = []
            value = Self.trimmed(pair)
        }
        guard name.count + value.count <= Self.largestPair else { throw .tooLarge }
        guard !name.isEmpty || !value.isEmpty else { throw .empty }
        for attribute in bytes[end...].dropFirst().split(separator: UInt8(ascii: ";")) { take(attribute) }
    }

    /// Returns whether a byte is a control character other than the tab. Such characters are not allowed.
    static func isControl(_ byte: UInt8) -> Bool { (byte < 0x20 && byte != 0x09) || byte == 0x7F }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        Array(ASCII.trimmed(bytes, blank: HTTPSyntax.isOptionalWhitespace))
    }

    /// Applies an attribute. If an attribute is repeated, the last one is used.
    private mutating func take(_ attribute: ArraySlice<UInt8>) {
        let equals = attribute.firstIndex(of: UInt8(ascii: "=")) ?? attribute.endIndex
        let name = ASCII.trimmed(attribute[..<equals], blank: HTTPSyntax.isOptionalWhitespace)
        let value = Self.trimmed(attribute[equals...].dropFirst())
        guard value.count <= Self.largestAttribute else { return }
        func isNamed(_ other: StaticString) -> Bool {
            other.withUTF8Buffer { ASCII.equalIgnoringCase(name, $0) }
        }
        if isNamed("Expires") {
            expires = CookieDate.parse(value) ?? expires
        } else if isNamed("Max-Age") {
            maximumAge = Self.seconds(value) ?? maximumAge
        } else if isNamed("Domain") {
            domain = (value.first == UInt8(ascii: ".") ? value.dropFirst() : value[...]).map(ASCII.lowercased)
        } else if isNamed("Path") {
            path = value
        } else if isNamed("Secure") {
            isSecure = true
        } else if isNamed("HttpOnly") {
            isHTTPOnly = true
        } else if isNamed("SameSite") {
            sameSite = Self.sameSite(value)
        }
    }

    private static func sameSite(_ value: [UInt8]) -> Cookie.SameSite {
        if ASCII.equalIgnoringCase(value, "none".utf8) { return .none }
        if ASCII.equalIgnoringCase(value, "lax".utf8) { return .lax }
        if ASCII.equalIgnoringCase(value, "strict".utf8) { return .strict }
        return .unspecified
    }

    /// Returns a number of seconds, clamped so that sums do not overflow; nil for any other string.
    private static func seconds(_ value: [UInt8]) -> Int64? {
        let isNegative = value.first == UInt8(ascii: "-")
        let digits = isNegative ? value.dropFirst() : value[...]
        guard !digits.isEmpty, digits.allSatisfy(ASCII.isDigit) else { return nil }
        let largest: Int64 = 1 << 40
        let number = digits.reduce(Int64(0)) { min($0 * 10 + Int64($1 - UInt8(ascii: "0")), largest) }
        return isNegative ? -number : number
    }
}

/// A parser for the date of an `Expires` attribute, with the lenient rules of RFC 6265bis, section 5.1.1.
enum CookieDate {
    /// Returns the seconds since 1970 for a date; nil for any other string.
    static func parse(_ bytes: some Sequence<UInt8>) -> Int64? {
        var parser = Parser()
        var token: [UInt8] = []
        for byte in bytes {
            if isDelimiter(byte) {
                parser.take(token)
                token.removeAll(keepingCapacity: true)
            } else {
                token.append(byte)
            }
        }
        parser.take(token)
        return parser.seconds
    }

    private static func isDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x09, 0x20...0x2F, 0x3B...0x40, 0x5B...0x60, 0x7B...0x7E: true
        default: false
        }
    }

    /// A parser that collects the parts of a date. Each token fills the first missing part that it matches.
    private struct Parser {
        var time: (hour: Int64, minute: Int64, second: Int64)?
        var day: Int64?
        var month: Int64?
        var year: Int64?

        mutating func take(_ token: [UInt8]) {
            guard !token.isEmpty else { return }
            if time == nil, let found = Self.time(token) {
                time = found
            } else if day == nil, let found = Self.number(token, digits: 1...2) {
                day = found.value
            } else if month == nil, let found = Self.month(token) {
                month = found
            } else if year == nil, let found = Self.number(token, digits: 2...4) {
                year = found.value
            }
        }

        /// Returns a number at the start of a token, followed by a non-digit or the end of the token.
        static func number(
            _ token: some Collection<UInt8>, digits: ClosedRange<Int>
        ) -> (value: Int64, count: Int)? {
            let count = token.prefix(digits.upperBound + 1).prefix(while: ASCII.isDigit).count
            guard digits.contains(count) else { return nil }
            return (token.prefix(count).reduce(0) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }, count)
        }

        static func time(_ token: [UInt8]) -> (Int64, Int64, Int64)? {
            var rest = token[...]
            var fields: [Int64] = []
            for index in 0..<3 {
                guard let (value, count) = number(rest, digits: 1...2) else { return nil }
                fields.append(value)
                rest = rest.dropFirst(count)
                guard index < 2 else { break }
                guard rest.first == UInt8(ascii: ":") else { return nil }
                rest = rest.dropFirst()
            }
            return (fields[0], fields[1], fields[2])
        }

        static let months = [
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ].map { Array($0.utf8) }

        static func month(_ token: [UInt8]) -> Int64? {
            let name = token.prefix(3).map(ASCII.lowercased)
            return months.firstIndex(of: name).map { Int64($0 + 1) }
        }

        var seconds: Int64? {
            guard let time, let day, let month, var year else { return nil }
            switch year {
            case 70...99: year += 1900
            case 0...69: year += 2000
            default: break
            }
            let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
            let lengths: [Int64] = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
            guard (1601...9999).contains(year), (1...lengths[Int(month - 1)]).contains(day),
                time.hour <= 23, time.minute <= 59, time.second <= 59
            else { return nil }
            // Compute the days since 1970 in the Gregorian calendar, using years that start in March.
            let shifted = month > 2 ? year : year - 1
            let era = shifted / 400
            let yearOfEra = shifted - era * 400
            let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
            let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
            return days * 86_400 + time.hour * 3600 + time.minute * 60 + time.second
        }
    }
}

/// The conversion of times to microseconds since 1970, as used by a store.
enum CookieTime {
    static let second: Int64 = 1_000_000
    /// The latest time that is stored, in the year 9999. Adding to it does not overflow.
    static let latest: Int64 = 253_402_300_799 * second
    /// The latest valid time of a change. Later times are damaged values, which would override all future changes.
    static let latestChange = latest - longestAge
    /// The maximum lifetime of a cookie (RFC 6265bis, section 5.5).
    static let longestAge: Int64 = 400 * 86_400 * second

    static func microseconds(_ date: Date) -> Int64 {
        let seconds = date.timeIntervalSince1970
        guard seconds > 0 else { return 0 }  // also for NaN
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
