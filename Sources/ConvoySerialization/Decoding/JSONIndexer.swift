import ConvoySupport
import Foundation

/// An indexer that finds all values in a JSON text in a single pass, without recursion.
///
/// The indexer accepts exactly the JSON defined by RFC 8259. It rejects commas before a closing bracket, byte-order
/// marks, numbers with leading zeros, unpaired surrogates and invalid UTF-8.
struct JSONIndexer {
    private(set) var tokens: JSONTokens
    private let start: UnsafePointer<UInt8>
    private let end: UnsafePointer<UInt8>
    private var next: UnsafePointer<UInt8>
    private let maximumDepth: Int

    init(_ bytes: UnsafePointer<UInt8>, count: Int, maximumDepth: Int) {
        start = bytes
        next = bytes
        end = bytes + count
        self.maximumDepth = maximumDepth
        // Most documents have about one token per ten bytes.
        tokens = JSONTokens(capacity: max(16, count / 8))
    }

    /// Indexes the text, and returns whether it is valid. The tokens are complete only for valid text.
    mutating func index() -> Bool {
        var container = -1
        var depth = 0
        while true {
            guard let byte = nextByte() else { return false }
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard depth < maximumDepth else { return false }
                let isObject = byte == UInt8(ascii: "{")
                let token = tokens.count
                tokens.append(
                    JSONToken(kind: isObject ? .object : .array, start: UInt32(truncatingIfNeeded: container)))
                container = token
                depth += 1
                next += 1
                guard let first = nextByte() else { return false }
                if first == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) { break }
                if isObject { guard key() else { return false } }
                continue
            case UInt8(ascii: "\""):
                guard string(isKey: false) else { return false }
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                guard number() else { return false }
            case UInt8(ascii: "t"):
                guard word(.true, "true") else { return false }
            case UInt8(ascii: "f"):
                guard word(.false, "false") else { return false }
            case UInt8(ascii: "n"):
                guard word(.null, "null") else { return false }
            default: return false
            }
            if byte != UInt8(ascii: "{"), byte != UInt8(ascii: "[") {
                guard container >= 0 else { return isAtEnd() }
                tokens.start[container].count += 1
            }
            // Close containers up to the next value.
            while true {
                guard let byte = nextByte() else { return false }
                next += 1
                let isObject = tokens.start[container].kind == .object
                if byte == UInt8(ascii: ",") {
                    if isObject {
                        guard nextByte() != nil, key() else { return false }
                    }
                    break
                }
                guard byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { return false }
                tokens.start[container].next = UInt32(truncatingIfNeeded: tokens.count)
                container = Int(Int32(bitPattern: tokens.start[container].start))
                depth -= 1
                guard container >= 0 else { return isAtEnd() }
                tokens.start[container].count += 1
            }
        }
    }

    /// Returns the next byte that is not whitespace; nil at the end.
    @inline(__always) private mutating func nextByte() -> UInt8? {
        while next < end {
            let byte = next.pointee
            if byte > 0x20 || (byte != 0x20 && byte != 0x0A && byte != 0x0D && byte != 0x09) { return byte }
            next += 1
        }
        return nil
    }

    mutating func append(_ token: JSONToken) { tokens.append(token) }

    private mutating func isAtEnd() -> Bool { nextByte() == nil }

    @inline(__always) private mutating func append(
        _ kind: JSONToken.Kind, isSimple: Bool = false, isASCII: Bool = true, from first: UnsafePointer<UInt8>,
        next following: UInt32? = nil
    ) {
        let token = JSONToken(
            kind: kind, isSimple: isSimple, isASCII: isASCII, start: UInt32(truncatingIfNeeded: first - start),
            count: UInt32(truncatingIfNeeded: next - first),
            next: following ?? UInt32(truncatingIfNeeded: tokens.count + 1))
        tokens.append(token)
    }

    @inline(__always) private mutating func word(_ kind: JSONToken.Kind, _ word: StaticString) -> Bool {
        let length = word.utf8CodeUnitCount
        guard end - next >= length, memcmp(next, word.utf8Start, length) == 0 else { return false }
        let first = next
        next += length
        append(kind, from: first)
        return true
    }

    // MARK: Numbers

    @inline(__always) private mutating func number() -> Bool {
        let first = next
        if next.pointee == UInt8(ascii: "-") { next += 1 }
        let digits = next
        guard skipDigits() else { return false }
        if digits.pointee == UInt8(ascii: "0"), next - digits > 1 { return false }
        var isSimple = true
        if next < end, next.pointee == UInt8(ascii: ".") {
            isSimple = false
            next += 1
            guard skipDigits() else { return false }
        }
        if next < end, next.pointee | 0x20 == UInt8(ascii: "e") {
            isSimple = false
            next += 1
            if next < end, next.pointee == UInt8(ascii: "+") || next.pointee == UInt8(ascii: "-") { next += 1 }
            guard skipDigits() else { return false }
        }
        append(.number, isSimple: isSimple, from: first)
        return true
    }

    /// Skips digits. Returns whether there was at least one.
    @inline(__always) private mutating func skipDigits() -> Bool {
        let first = next
        while next < end, next.pointee.isDigit { next += 1 }
        return next > first
    }

    // MARK: Strings

    /// Reads a quoted key and its colon.
    @inline(__always) private mutating func key() -> Bool {
        guard next.pointee == UInt8(ascii: "\""), string(isKey: true), nextByte() == UInt8(ascii: ":") else { return false }
        next += 1
        return true
    }

    @inline(__always) private mutating func string(isKey: Bool) -> Bool {
        next += 1
        let first = next
        var isSimple = true
        var isASCII = true
        while true {
            skipPlainText()
            guard next < end else { return false }
            let byte = next.pointee
            if byte == UInt8(ascii: "\"") { break }
            if byte == UInt8(ascii: "\\") {
                isSimple = false
                guard escape() else { return false }
            } else {
                isASCII = false
                guard byte >= 0x80, character(byte) else { return false }
            }
        }
        append(
            .string, isSimple: isSimple, isASCII: isASCII, from: first,
            next: isKey ? JSONIndex.fingerprint(of: UnsafeBufferPointer(start: first, count: next - first)) : nil)
        next += 1
        return true
    }

    /// Skips ASCII characters that represent themselves, up to a quote, a backslash, a control character or a byte of a
    /// multibyte character.
    @inline(__always) private mutating func skipPlainText() {
        let ones: UInt64 = 0x0101_0101_0101_0101
        while end - next >= 8 {
            let word = UnsafeRawPointer(next).loadUnaligned(as: UInt64.self).littleEndian
            let quotes = word ^ (ones &* 0x22), backslashes = word ^ (ones &* 0x5C)
            // `stops` has the highest bit set in each byte that stops the scan, and in some bytes after the first of
            // them.
            let stops =
                ((quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes | (word &- ones &* 0x20) | word)
                & (ones &* 0x80)
            if stops != 0 {
                next += stops.trailingZeroBitCount >> 3
                return
            }
            next += 8
        }
        while next < end {
            let byte = next.pointee
            if byte == 0x22 || byte == 0x5C || byte < 0x20 || byte >= 0x80 { return }
            next += 1
        }
    }

    private mutating func escape() -> Bool {
        guard end - next >= 2 else { return false }
        let letter = next[1]
        next += 2
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return true
        case UInt8(ascii: "u"):
            guard let unit = hexadecimal() else { return false }
            if !UTF16.isLeadSurrogate(unit) { return !UTF16.isTrailSurrogate(unit) }
            guard end - next >= 6, next[0] == UInt8(ascii: "\\"), next[1] == UInt8(ascii: "u") else { return false }
            next += 2
            return hexadecimal().map(UTF16.isTrailSurrogate) ?? false
        default: return false
        }
    }

    private mutating func hexadecimal() -> UInt16? {
        guard end - next >= 4 else { return nil }
        var unit: UInt16 = 0
        for offset in 0..<4 {
            guard let digit = ASCII.hexadecimalValue(next[offset]) else { return nil }
            unit = unit << 4 | UInt16(digit)
        }
        next += 4
        return unit
    }

    /// Skips a character of two to four bytes (Unicode, table 3-7).
    private mutating func character(_ lead: UInt8) -> Bool {
        let rest = end - next - 1
        func follows(_ offset: Int, _ range: ClosedRange<UInt8> = 0x80...0xBF) -> Bool { range.contains(next[offset]) }
        switch lead {
        case 0xC2...0xDF:
            guard rest >= 1, follows(1) else { return false }
            next += 2
        case 0xE0...0xEF:
            let second: ClosedRange<UInt8> = lead == 0xE0 ? 0xA0...0xBF : lead == 0xED ? 0x80...0x9F : 0x80...0xBF
            guard rest >= 2, follows(1, second), follows(2) else { return false }
            next += 3
        case 0xF0...0xF4:
            let second: ClosedRange<UInt8> = lead == 0xF0 ? 0x90...0xBF : lead == 0xF4 ? 0x80...0x8F : 0x80...0xBF
            guard rest >= 3, follows(1, second), follows(2), follows(3) else { return false }
            next += 4
        default: return false
        }
        return true
    }
}

extension UInt8 {
    /// Whether the byte is an ASCII digit.
    @inline(__always) var isDigit: Bool { self &- UInt8(ascii: "0") < 10 }
}
