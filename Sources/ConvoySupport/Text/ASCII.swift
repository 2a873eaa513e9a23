/// Functions for ASCII text as bytes, without the overhead of Unicode processing.
@usableFromInline package enum ASCII {
    /// Returns the byte in lower case if it is an ASCII letter, or the byte itself otherwise.
    @inlinable package static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    @inlinable package static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }

    /// Returns whether the byte is a space, a tab, a carriage return or a line feed.
    @inlinable package static func isWhitespace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
            || byte == UInt8(ascii: "\n")
    }

    /// Returns whether two strings are equal, ignoring the case of ASCII letters.
    @inlinable package static func equalIgnoringCase(
        _ one: some Collection<UInt8>, _ other: some Collection<UInt8>
    ) -> Bool {
        one.count == other.count && zip(one, other).allSatisfy { lowercased($0) == lowercased($1) }
    }

    /// Returns the bytes without leading and trailing whitespace.
    @inlinable package static func trimmed<Bytes: BidirectionalCollection<UInt8>>(
        _ bytes: Bytes, blank isBlank: (UInt8) -> Bool = isWhitespace
    ) -> Bytes.SubSequence {
        var rest = bytes[...]
        while let first = rest.first, isBlank(first) { rest = rest.dropFirst() }
        while let last = rest.last, isBlank(last) { rest = rest.dropLast() }
        return rest
    }

    /// Decodes text from the network as UTF-8 if it is valid, and otherwise as Latin-1, in which all bytes are valid.
    package static func text(_ bytes: ArraySlice<UInt8>) -> String {
        String(validating: bytes, as: UTF8.self)
            ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    /// Decodes bytes in memory as UTF-8 if they are valid, and as Latin-1 otherwise.
    package static func text(_ bytes: UnsafeRawBufferPointer) -> String {
        if isASCII(bytes) { return String(decoding: bytes, as: UTF8.self) }
        return String(validating: bytes, as: UTF8.self)
            ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    /// Returns whether all bytes are ASCII. Swift's own string validation takes several times as long.
    package static func isASCII(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var all: UInt8 = 0
        for byte in bytes { all |= byte }
        return all < 0x80
    }

    // MARK: Hexadecimal digits

    /// Returns the value of a hexadecimal digit of either case, or nil for any other byte.
    @inlinable package static func hexadecimalValue(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    @inlinable package static func isHexadecimal(_ byte: UInt8) -> Bool { hexadecimalValue(byte) != nil }

    /// Returns the bytes encoded by pairs of hexadecimal digits, or nil for any other text.
    package static func bytes(ofHexadecimal digits: some RandomAccessCollection<UInt8>) -> [UInt8]? {
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        var index = digits.startIndex
        while index != digits.endIndex {
            let next = digits.index(after: index)
            guard let high = hexadecimalValue(digits[index]), let low = hexadecimalValue(digits[next]) else { return nil }
            bytes.append(high << 4 | low)
            index = digits.index(after: next)
        }
        return bytes
    }

    /// Returns the hexadecimal digit of a number below 16.
    @inlinable package static func hexadecimalDigit(_ value: UInt8, uppercase: Bool = false) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: uppercase ? "A" : "a") + value - 10
    }
}

extension Unicode.Scalar {
    /// Whether the scalar controls a terminal or a file manager instead of being displayed: control characters, line
    /// separators, and bidirectional formatting characters. For example, `U+202E` displays `gpj.exe` as `exe.jpg`.
    package var controlsDisplay: Bool {
        switch value {
        case 0...0x1F, 0x7F...0x9F, 0x2028, 0x2029: true
        case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: true
        case 0xFEFF, 0xFFF9...0xFFFB, 0xE0000...0xE007F: true
        default: false
        }
    }
}
