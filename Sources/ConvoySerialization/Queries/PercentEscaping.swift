/// Percent-escaping as AFNetworking does it since 2.6.0: RFC 3986's unreserved characters, `/` and `?` stay, every
/// other byte of the UTF-8 becomes `%XX`.
enum PercentEscaping {
    /// Appends the escaped text to a buffer of ASCII.
    static func append(_ text: String, to output: inout [UInt8]) {
        var text = text
        text.withUTF8 { bytes in
            for byte in bytes {
                if keeps(byte) {
                    output.append(byte)
                } else {
                    output.append(UInt8(ascii: "%"))
                    output.append(digit(byte >> 4))
                    output.append(digit(byte & 0xF))
                }
            }
        }
    }

    static func escape(_ text: String) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(text.utf8.count)
        append(text, to: &output)
        return String(decoding: output, as: UTF8.self)
    }

    /// A query of somebody else's making with what may not stand in one (RFC 3986, section 3.4) escaped: a bare `#`
    /// would end it. Escapes that are there are left alone.
    static func repaired(_ query: String) -> String {
        if query.utf8.allSatisfy({ $0 == UInt8(ascii: "&") || $0 == UInt8(ascii: "=") || keeps($0) }) { return query }
        let bytes = Array(query.utf8)
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count + 16)
        for (index, byte) in bytes.enumerated() {
            let isEscape = byte == UInt8(ascii: "%") && bytes[(index + 1)...].prefix(2).count(where: isHexadecimal) == 2
            if keeps(byte) || isEscape || isDelimiter(byte) {
                output.append(byte)
            } else {
                output.append(contentsOf: [UInt8(ascii: "%"), digit(byte >> 4), digit(byte & 0xF)])
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "F"),
            UInt8(ascii: "a")...UInt8(ascii: "f"):
            return true
        default: return false
        }
    }

    private static func isDelimiter(_ byte: UInt8) -> Bool { "!$&'()*+,;=:@".utf8.contains(byte) }

    private static func keeps(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            // "-", ".", "/" and the digits stand side by side in ASCII.
            UInt8(ascii: "-")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "?"):
            return true
        default:
            return false
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
    }
}
