import ConvoySupport

/// Dates in `Expires`, which must have one of the three forms exactly (RFC 9110, section 5.6.7), but for the case of
/// letters. A date that is merely like one makes a response stale (RFC 9111, section 5.3), since a cache that guesses
/// too late a time serves what it must not.
enum StrictDate {
    /// The seconds since 1970; nil for any other text.
    static func parse(_ text: String, now: Int64) -> Int64? {
        hasForm(Array(text.utf8)) ? HTTPDate.parse(text, now: now) : nil
    }

    private static func hasForm(_ text: [UInt8]) -> Bool {
        if text.count == 29 { return fits(text, "aaa, 00 aaa 0000 00:00:00 GMT") }
        if text.count == 24 { return fits(text, "aaa aaa _0 00:00:00 0000") }
        guard let comma = text.firstIndex(of: UInt8(ascii: ",")), (6...9).contains(comma) else { return false }
        return text[..<comma].allSatisfy(isLetter) && fits(Array(text[comma...]), ", 00-aaa-00 00:00:00 GMT")
    }

    /// - Parameter form: `a` stands for a letter, `0` for a digit, `_` for a digit or a space, all else for itself.
    private static func fits(_ text: [UInt8], _ form: StaticString) -> Bool {
        guard text.count == form.utf8CodeUnitCount else { return false }
        return text.indices.allSatisfy { index in
            let byte = text[index]
            return switch form.utf8Start[index] {
            case UInt8(ascii: "a"): isLetter(byte)
            case UInt8(ascii: "0"): ASCII.isDigit(byte)
            case UInt8(ascii: "_"): ASCII.isDigit(byte) || byte == UInt8(ascii: " ")
            case let expected: ASCII.lowercased(byte) == ASCII.lowercased(expected)
            }
        }
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(ASCII.lowercased(byte))
    }
}
