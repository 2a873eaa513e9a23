/// A value from a server that is sent back to it: a validator, or the identifier of an event (RFC 9110, sections 8.8
/// and 13.1; HTML, section 9.2). All such values use this type.
///
/// The bytes are kept unchanged, whatever their encoding is, as the server compares them with its own. Bytes that no
/// request can carry are not a value: the response then counts as one without it.
package struct EchoedValue: Hashable, Sendable {
    /// In bytes; longer values are ignored. Servers refuse heads of 8 KiB.
    package static let maximumLength = 4096

    package let bytes: [UInt8]

    /// - Returns: nil for no bytes, for too many, and for control characters other than the tab.
    package init?(_ bytes: some Collection<UInt8>) {
        guard !bytes.isEmpty, bytes.count <= Self.maximumLength else { return nil }
        self.bytes = Array(bytes)
        if !HTTPSyntax.isFieldValue(self.bytes) { return nil }
    }

    // MARK: As text

    /// The value as text, for storage and for a field of a `URLRequest`.
    ///
    /// Bytes that are not UTF-8 become private characters, U+10FE80 to U+10FEFF, one for each byte, and so do the bytes
    /// of these characters themselves. ``bytes(of:)`` reverses this.
    package var text: String {
        if bytes.withUnsafeBytes({ ASCII.isASCII($0) }) { return String(decoding: bytes, as: UTF8.self) }
        if let text = String(validating: bytes, as: UTF8.self), !Self.isEscaped(text) { return text }
        var scalars = String.UnicodeScalarView()
        var rest = bytes[...]
        while let byte = rest.first {
            // Longest first, as the beginning of a long sequence is not valid by itself.
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

    /// Decodes what ``text`` returned.
    package init?(text: String) { self.init(Self.bytes(of: text)) }

    /// The bytes of a text that ``text`` returned.
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

    /// Whether a text contains private characters that stand for bytes.
    package static func isEscaped(_ text: String) -> Bool {
        // Fast path: characters beyond the fifteenth plane begin with this byte, and almost no text has one.
        text.utf8.contains(0xF4) && text.unicodeScalars.contains { escapes.contains($0) }
    }

    private static let firstEscape: UInt32 = 0x10FE80
    private static let escapes: ClosedRange<Unicode.Scalar> = "\u{10FE80}"..."\u{10FEFF}"

    // MARK: As one character for each byte

    /// The value of a text with one character for each byte, as the cache represents fields.
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
