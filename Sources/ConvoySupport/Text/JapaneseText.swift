import Foundation

/// Decodes EUC-JP and ISO-2022-JP as the WHATWG Encoding Standard does (sections 12.1 and 12.2).
///
/// Both use JIS X 0208 with the NEC and IBM extensions. iconv supports these extensions only in its Shift_JIS (CP932),
/// which numbers the same characters differently.
enum JapaneseText {
    /// A builder that collects text as Shift_JIS.
    private struct Builder {
        private var text = ""
        private var shiftJIS: [UInt8] = []

        /// Appends an ASCII byte, or a half-width katakana from 0xA1 to 0xDF.
        mutating func append(_ byte: UInt8) { shiftJIS.append(byte) }

        /// Appends a character of JIS X 0208 by its row and cell, which are between 1 and 94.
        mutating func append(row: UInt8, cell: UInt8) {
            shiftJIS.append((row + 1) / 2 + (row <= 62 ? 0x80 : 0xC0))
            shiftJIS.append(row.isMultiple(of: 2) ? cell + 0x9E : cell + (cell >= 64 ? 0x40 : 0x3F))
        }

        /// Appends text that Shift_JIS cannot represent. Returns false if the text before it is invalid.
        mutating func append(_ other: String) -> Bool {
            guard let before = Iconv.text(of: Data(shiftJIS), named: "CP932") else { return false }
            text += before + other
            shiftJIS = []
            return true
        }

        /// Returns the complete text, or nil if it is invalid.
        func result() -> String? { Iconv.text(of: Data(shiftJIS), named: "CP932").map { text + $0 } }
    }

    static func eucJP(_ data: Data) -> String? {
        var builder = Builder()
        var bytes = data[...]
        let graphic: ClosedRange<UInt8> = 0xA1...0xFE
        while let byte = bytes.popFirst() {
            switch byte {
            case ..<0x80: builder.append(byte)
            case 0x8E:
                guard let katakana = bytes.popFirst(), (0xA1...0xDF).contains(katakana) else { return nil }
                builder.append(katakana)
            case 0x8F:
                guard let row = bytes.popFirst(), let cell = bytes.popFirst(),
                    let supplementary = Iconv.text(of: Data([0x8F, row, cell]), named: "EUC-JP-MS"),
                    builder.append(supplementary)
                else { return nil }
            case graphic:
                guard let cell = bytes.popFirst(), graphic.contains(cell) else { return nil }
                builder.append(row: byte - 0xA0, cell: cell - 0xA0)
            default: return nil
            }
        }
        return builder.result()
    }

    /// The sets of characters that escape sequences select.
    private enum CharacterSet {
        case ascii, roman, katakana, kanji
    }

    private static let escapes: [[UInt8]: CharacterSet] = [
        Array("(B".utf8): .ascii, Array("(J".utf8): .roman, Array("(I".utf8): .katakana, Array("$@".utf8): .kanji,
        Array("$B".utf8): .kanji,
    ]

    static func iso2022JP(_ data: Data) -> String? {
        var builder = Builder()
        var set = CharacterSet.ascii
        var bytes = data[...]
        while let byte = bytes.popFirst() {
            switch (byte, set) {
            case (0x1B, _):
                guard let chosen = escapes[Array(bytes.prefix(2))] else { return nil }
                set = chosen
                bytes = bytes.dropFirst(2)
            case (0x80..., _), (0x0E...0x0F, _): return nil
            // Some encoders do not return to ASCII before the end of a line.
            case (...0x20, _), (_, .ascii): builder.append(byte)
            case (0x5C, .roman): guard builder.append("\u{A5}") else { return nil }
            case (0x7E, .roman): guard builder.append("\u{203E}") else { return nil }
            case (_, .roman): builder.append(byte)
            case (...0x5F, .katakana): builder.append(byte | 0x80)
            case (...0x7E, .kanji):
                guard let cell = bytes.popFirst(), (0x21...0x7E).contains(cell) else { return nil }
                builder.append(row: byte - 0x20, cell: cell - 0x20)
            default: return nil
            }
        }
        return builder.result()
    }
}
