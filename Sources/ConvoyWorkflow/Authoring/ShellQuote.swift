/// A reader for the quoted parts of shell commands. It operates on bytes, because `$'\xc3\xa9'` is one character of two
/// bytes.
enum ShellQuote {
    /// Reads bash's `$'…'` up to its closing quote.
    ///
    /// - Parameter rest: The bytes after the opening quote. On return, the bytes after the closing quote.
    static func ansiC(_ rest: inout ArraySlice<UInt8>) throws(CurlCommandLine.Problem) -> [UInt8] {
        var bytes: [UInt8] = [], isCut = false
        while let next = rest.popFirst() {
            if next == UInt8(ascii: "'") { return bytes }
            guard next == UInt8(ascii: "\\"), let letter = rest.popFirst() else {
                if !isCut { bytes.append(next) }
                continue
            }
            let escaped = escape(letter, &rest)
            // In bash, a NUL ends the quoted text.
            if escaped == [0] { isCut = true }
            if !isCut { bytes += escaped }
        }
        throw CurlCommandLine.Problem(description: "A quote is not closed.")
    }

    /// Returns the bytes of an escape sequence. An unknown sequence keeps its backslash.
    private static func escape(_ letter: UInt8, _ rest: inout ArraySlice<UInt8>) -> [UInt8] {
        let backslash = UInt8(ascii: "\\")
        switch letter {
        case UInt8(ascii: "a"): return [7]
        case UInt8(ascii: "b"): return [8]
        case UInt8(ascii: "e"), UInt8(ascii: "E"): return [27]
        case UInt8(ascii: "f"): return [12]
        case UInt8(ascii: "n"): return [10]
        case UInt8(ascii: "r"): return [13]
        case UInt8(ascii: "t"): return [9]
        case UInt8(ascii: "v"): return [11]
        case UInt8(ascii: "\\"), UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "?"): return [letter]
        case UInt8(ascii: "0")...UInt8(ascii: "7"):
            rest = [letter] + rest
            return number(&rest, atMost: 3, radix: 8).map { [UInt8(truncatingIfNeeded: $0)] } ?? []
        case UInt8(ascii: "x"):
            return number(&rest, atMost: 2, radix: 16).map { [UInt8(truncatingIfNeeded: $0)] } ?? [backslash, letter]
        case UInt8(ascii: "u"), UInt8(ascii: "U"):
            guard var value = number(&rest, atMost: letter == UInt8(ascii: "u") ? 4 : 8, radix: 16) else {
                return [backslash, letter]
            }
            // Browsers write a character beyond U+FFFF as two surrogates.
            if (0xD800...0xDBFF).contains(value), rest.starts(with: "\\u".utf8) {
                var behind = rest.dropFirst(2)
                if let second = number(&behind, atMost: 4, radix: 16), (0xDC00...0xDFFF).contains(second) {
                    value = 0x10000 + (value - 0xD800) << 10 + second - 0xDC00
                    rest = behind
                }
            }
            return Array(String(Unicode.Scalar(value) ?? "\u{FFFD}").utf8)
        case UInt8(ascii: "c"): return rest.popFirst().map { [$0 & 0x1F] } ?? [backslash, letter]
        default: return [backslash, letter]
        }
    }

    /// Removes and returns a number at the start. Returns nil without a digit.
    private static func number(_ rest: inout ArraySlice<UInt8>, atMost count: Int, radix: Int) -> UInt32? {
        let digits = rest.prefix(count).prefix { Character(Unicode.Scalar($0)).hexDigitValue.map { $0 < radix } ?? false }
        rest = rest.dropFirst(digits.count)
        return UInt32(String(decoding: digits, as: UTF8.self), radix: radix)
    }

    /// Decodes bytes. Bytes that are not UTF-8 are read as Latin-1, in which Firefox writes `\xe9` for é.
    static func text(_ bytes: [UInt8]) -> (text: String, isUTF8: Bool) {
        if let text = String(validating: bytes, as: UTF8.self) { return (text, true) }
        var text = "", rest = bytes[...]
        while let first = rest.first {
            let lengths = first < 0x80 ? 1...1 : 2...4
            let character = lengths.lazy.filter { $0 <= rest.count }
                .compactMap { String(validating: rest.prefix($0), as: UTF8.self) }.first
            text += character ?? String(Unicode.Scalar(first))
            rest = rest.dropFirst(character?.utf8.count ?? 1)
        }
        return (text, false)
    }
}
