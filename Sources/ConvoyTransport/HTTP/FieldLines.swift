import ConvoySupport
import Foundation

/// The start line and the field lines of a message, received line by line (RFC 9112, section 5).
///
/// Only this type decides where a field begins and ends, for final and interim heads, trailers, and a proxy's response
/// to CONNECT. Each obs-fold is replaced by a space, so ``bytes`` has exactly one line per field, and every line after
/// the start line has a valid name and a colon.
struct FieldLines {
    /// The result of appending a line.
    enum Line: Equatable {
        /// The line is a field whose name has this number of bytes.
        case field(nameLength: Int)
        /// The line continues the last field.
        case continuation
        /// The line makes the message malformed. The text completes a sentence that begins with the name of the
        /// message.
        case refused(String)
    }

    /// All lines with their line endings.
    private(set) var bytes: [UInt8] = []
    /// Whether any field was folded.
    private(set) var isFolded = false
    private var hasField = false

    /// Appends the status line, or the empty line after the fields.
    mutating func append(startOrEnd line: UnsafeRawBufferPointer) {
        if bytes.isEmpty { bytes.reserveCapacity(512) }
        bytes.append(contentsOf: line)
    }

    /// Appends a line of a field, which may lack its line ending if the connection ends there.
    mutating func append(_ line: UnsafeRawBufferPointer) -> Line {
        guard let first = line.first else { return .continuation }
        // libcurl 7.83 and later reject zero bytes in HTTP/1.1, and nghttp2 rejects them in HTTP/2.
        if line.contains(0, within: line.count) {
            return .refused("contains a NUL byte")
        }
        if HTTPSyntax.isOptionalWhitespace(first) { return unfold(line) }
        // libcurl would treat such a line as the end of the header, and the rest as part of the next response.
        if first == UInt8(ascii: "\r") { return .refused("contains a line that begins with a bare CR") }
        let nameLength = Self.tokenLength(line)
        // RFC 9112, section 5.1: recipients treat whitespace after a name differently, and may therefore disagree about
        // the framing.
        guard nameLength > 0, nameLength < line.count, line[nameLength] == UInt8(ascii: ":") else { return refused(line) }
        hasField = true
        bytes.append(contentsOf: line)
        return .field(nameLength: nameLength)
    }

    /// Returns the values of all fields with a name, which must be ASCII.
    func values(of wanted: StaticString) -> [String] {
        var values: [String] = []
        bytes.withUnsafeBytes { bytes in
            Self.forEachField(in: bytes) { name, value in
                if name.isEqualIgnoringCase(to: wanted) { values.append(ASCII.text(value)) }
            }
        }
        return values
    }

    /// Calls a closure with each field after the start line of a head that was collected by `FieldLines`.
    static func forEachField(
        in head: UnsafeRawBufferPointer, _ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Void
    ) {
        forEachLine(in: head) { line in
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return }
            body(
                UnsafeRawBufferPointer(rebasing: line[..<colon]),
                UnsafeRawBufferPointer(rebasing: ASCII.trimmed(line[(colon + 1)...])))
        }
    }

    /// Calls a closure with each line after the start line.
    static func forEachLine(in head: UnsafeRawBufferPointer, _ body: (_ line: UnsafeRawBufferPointer) -> Void) {
        guard let start = head.baseAddress else { return }
        func endOfLine(_ position: Int) -> Int {
            memchr(start + position, 0x0A, head.count - position).map { UnsafeRawPointer($0) - start } ?? head.count
        }
        var position = endOfLine(0) + 1
        while position < head.count {
            let end = endOfLine(position)
            body(UnsafeRawBufferPointer(rebasing: head[position..<end]))
            position = end + 1
        }
    }

    // MARK: Lines

    /// Replaces the line ending before a continuation, and the whitespace around it, with a space (RFC 9112, section
    /// 5.2).
    private mutating func unfold(_ line: UnsafeRawBufferPointer) -> Line {
        // The line would continue the status line (RFC 9112, section 2.2).
        guard hasField else { return .refused("begins with a folded line") }
        isFolded = true
        while let last = bytes.last, ASCII.isWhitespace(last) { bytes.removeLast() }
        bytes.append(UInt8(ascii: " "))
        let content = line.drop { HTTPSyntax.isOptionalWhitespace($0) }
        bytes.append(contentsOf: content)
        return .continuation
    }

    private func refused(_ line: UnsafeRawBufferPointer) -> Line {
        // If the line does not begin with a name, it may be a secret.
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
            return .refused("contains a line without a colon")
        }
        let name = String(reflecting: ASCII.text(UnsafeRawBufferPointer(rebasing: line[..<min(colon, 100)])))
        return .refused("contains an invalid field name: \(name)")
    }

    // MARK: Names

    /// Returns the length of the token with which a line begins.
    private static func tokenLength(_ line: UnsafeRawBufferPointer) -> Int {
        // Use one bit for each ASCII character that a token may contain, because this runs for each byte of each name.
        let low: UInt64 = 0x03FF_6CFA_0000_0000
        let high: UInt64 = 0x57FF_FFFF_C7FF_FFFE
        var length = 0
        // Most names consist only of letters and hyphens, which are tested eight at once.
        while length + 8 <= line.count {
            let count = lettersAndHyphens(
                in: UInt64(littleEndian: line.loadUnaligned(fromByteOffset: length, as: UInt64.self)))
            length += count
            if count < 8 { break }
        }
        while length < line.count {
            let byte = line[length]
            guard byte < 0x80, (byte < 0x40 ? low : high) & (1 &<< UInt64(byte & 0x3F)) != 0 else { break }
            length += 1
        }
        return length
    }

    /// Returns the number of letters and hyphens at the start of eight bytes.
    private static func lettersAndHyphens(in bytes: UInt64) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let low = 0x7F * ones
        // The highest bit of each byte indicates whether the byte is a letter or a hyphen. No sum overflows a byte.
        let folded = (bytes | 0x20 * ones) & low
        let letters = (folded &+ 0x1F * ones) & ~(folded &+ 0x05 * ones)
        let hyphens = ~(((bytes & low) ^ 0x2D * ones) &+ low)
        let others = ~((letters | hyphens) & ~bytes) & (0x80 * ones)
        return others.trailingZeroBitCount / 8
    }
}

extension UnsafeRawBufferPointer {
    /// Returns whether a byte is among the first `length` bytes.
    fileprivate func contains(_ byte: UInt8, within length: Int) -> Bool {
        guard let baseAddress, length > 0 else { return false }
        return memchr(baseAddress, Int32(byte), length) != nil
    }
}
