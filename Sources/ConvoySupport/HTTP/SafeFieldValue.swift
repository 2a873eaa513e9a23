/// A value that a server sends and expects back unchanged: a validator, or an event identifier (RFC 9110, sections 8.8
/// and 13.1; HTML, section 9.2).
///
/// The bytes are preserved in any encoding, because the server compares them with its own. If a value contains bytes
/// that a request cannot carry, the response is treated as if it had no such value.
package struct SafeFieldValue: Hashable, Sendable {
    /// The maximum length, in bytes. Longer values are ignored, because many servers reject request heads over 8 KiB.
    package static let maximumLength = 4096

    package let bytes: [UInt8]

    /// - Returns: nil if the value is empty, too long, or contains control characters other than tabs.
    package init?(_ bytes: some Collection<UInt8>) {
        guard !bytes.isEmpty, bytes.count <= Self.maximumLength else { return nil }
        self.bytes = Array(bytes)
        if !HTTPSyntax.isFieldValue(self.bytes) { return nil }
    }

    // MARK: As text

    /// The value as a string, for storage and for the fields of a `URLRequest`.
    ///
    /// Each byte that is not valid UTF-8 becomes a private-use character from U+10FE80 to U+10FEFF. The bytes of these
    /// characters themselves are escaped in the same way. ``bytes(of:)`` reverses the conversion.
    package var text: String {
        if bytes.withUnsafeBytes({ ASCII.isASCII($0) }) { return String(decoding: bytes, as: UTF8.self) }
        if let text = String(validating: bytes, as: UTF8.self), !Self.isEscaped(text) { return text }
        var scalars = String.UnicodeScalarView()
        var rest = bytes[...]
        while let byte = rest.first {
            // Try the longest sequence first: a prefix of a multibyte sequence is not valid on its own.
            let scalar = (1...4).lazy.compactMap { length -> (Unicode.Scalar, Int)? in
                guard length <= rest.count, let text = String(validating: rest.prefix(length), as: UTF8.self),
                    let scalar = text.unicodeScalars.first, !Self.escapes.contains(scalar)
                else { return nil }
                return (scalar, length)
            }.first
            if let (scalar, length) = scalar {
                scalars.append(scalar)
                rest = rest.dropFirst(length)
            } else {
                if let escape = Unicode.Scalar(Self.firstEscape + UInt32(byte) - 0x80) { scalars.append(escape) }
                rest = rest.dropFirst()
            }
        }
        return String(scalars)
    }

    /// Creates a value from a string returned by ``text``.
    package init?(text: String) { self.init(Self.bytes(of: text)) }

    /// Decodes a string returned by ``text`` to bytes.
    package static func bytes(of text: String) -> [UInt8] {
        guard isEscaped(text) else { return Array(text.utf8) }
        var bytes: [UInt8] = []
        for scalar in text.unicodeScalars {
            if escapes.contains(scalar) {
                bytes.append(UInt8(truncatingIfNeeded: scalar.value - firstEscape + 0x80))
            } else {
                bytes += String(scalar).utf8
            }
        }
        return bytes
    }

    /// Returns whether a string contains private-use characters that represent bytes.
    package static func isEscaped(_ text: String) -> Bool {
        // Fast path: only characters of plane 16 begin with this byte, and they are rare.
        text.utf8.contains(0xF4) && text.unicodeScalars.contains { escapes.contains($0) }
    }

    private static let firstEscape: UInt32 = 0x10FE80
    private static let escapes: ClosedRange<Unicode.Scalar> = "\u{10FE80}"..."\u{10FEFF}"

    // MARK: As one character for each byte

    /// Creates a value from a string that has one character per byte, as the cache represents fields.
    package init?(latin1 text: String) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            guard let byte = UInt8(exactly: scalar.value) else { return nil }
            bytes.append(byte)
        }
        self.init(bytes)
    }
}
