import Foundation

/// A single-byte encoding, as the WHATWG Encoding Standard defines it (section 9).
///
/// Most characters are obtained from iconv. Decoding with a table avoids iconv's composition of letters and accents.
struct SingleByteTable: Sendable {
    /// The characters for the bytes from 0x80 on; nil for an invalid byte.
    private let upper: [Unicode.Scalar?]

    private static let tables = Locked<[String: SingleByteTable]>([:])

    /// Returns the table of an iconv charset, or nil if the system does not support it.
    static func named(_ name: String) -> SingleByteTable? {
        if let known = tables.withLock({ $0[name] }) { return known }
        guard Iconv.supports(name) else { return nil }
        let table = SingleByteTable(name)
        tables.withLock { $0[name] = table }
        return table
    }

    /// The bytes for which iconv returns a different character than the standard.
    private static let exceptions: [String: [UInt8: Unicode.Scalar]] = [
        "CP1255": [0xCA: "\u{5BA}"],
        "KOI8-U": [0xAE: "\u{45E}", 0xBE: "\u{40E}"],
        "MACINTOSH": [0xC6: "\u{2206}", 0xF0: "\u{F8FF}"],
        "MAC-UK": [0xFF: "\u{20AC}"],
    ]

    private init(_ name: String) {
        upper = (UInt8(0x80)...0xFF).map { byte in
            if let exception = Self.exceptions[name]?[byte] { return exception }
            if let scalar = Iconv.text(of: Data([byte]), named: name)?.unicodeScalars.first { return scalar }
            // Gaps in the Windows code pages decode to control characters.
            return byte < 0xA0 ? Unicode.Scalar(byte) : nil
        }
    }

    /// Returns the decoded text, or nil if a byte is invalid.
    func text(of data: Data) -> String? {
        var output: [UInt8] = []
        output.reserveCapacity(data.count)
        for byte in data {
            if byte < 0x80 {
                output.append(byte)
            } else {
                guard let scalar = upper[Int(byte - 0x80)] else { return nil }
                output.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            }
        }
        return String(decoding: output, as: UTF8.self)
    }
}
