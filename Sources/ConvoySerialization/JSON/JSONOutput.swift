import ConvoySupport

/// A buffer for writing JSON.
struct JSONOutput {
    var bytes: [UInt8] = []
    /// Whether `/` is written as `\/`, as by `JSONSerialization`.
    var escapesSlashes = false

    mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// Appends a quoted string (RFC 8259, section 7).
    mutating func appendQuoted(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { content in
            // Most strings need no escapes, and are copied in one piece.
            var copied = 0
            for (index, byte) in content.enumerated() {
                guard
                    byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
                        || (byte == UInt8(ascii: "/") && escapesSlashes)
                else { continue }
                bytes.append(contentsOf: content[copied..<index])
                appendEscape(of: byte)
                copied = index + 1
            }
            bytes.append(contentsOf: content[copied...])
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func appendEscape(of byte: UInt8) {
        switch byte {
        case 0x08: append("\\b")
        case 0x0C: append("\\f")
        case 0x0A: append("\\n")
        case 0x0D: append("\\r")
        case 0x09: append("\\t")
        case 0..<0x20:
            append(byte < 0x10 ? "\\u000" : "\\u001")
            bytes.append(ASCII.hexadecimalDigit(byte & 0xF))
        default:
            append("\\")
            bytes.append(byte)
        }
    }

    /// How many bytes `appendQuoted(_:)` writes, where slashes are not escaped.
    static func quotedLength(of text: String) -> Int {
        var text = text
        return text.withUTF8 { content in
            var length = content.count + 2
            for byte in content {
                switch byte {
                case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x08, 0x09, 0x0A, 0x0C, 0x0D: length += 1
                case 0..<0x20: length += 5
                default: break
                }
            }
            return length
        }
    }
}
