import ConvoySupport

/// A buffer for writing JSON.
package struct JSONOutput {
    package var bytes: [UInt8] = []
    /// Whether `/` is written as `\/`, as in `JSONSerialization`.
    var escapesSlashes = false
    /// The predicate for characters to escape in addition to those that JSON requires; nil to escape no others.
    private let escapes: ((Unicode.Scalar) -> Bool)?

    package init(escaping escapes: ((Unicode.Scalar) -> Bool)? = nil) { self.escapes = escapes }

    package mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// Appends a quoted string (RFC 8259, section 7).
    package mutating func appendQuoted(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        defer { bytes.append(UInt8(ascii: "\"")) }
        if let escapes { return appendEscaped(text, escapes) }
        var text = text
        text.withUTF8 { content in
            // Most strings need no escapes and are copied as a whole.
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
    }

    private mutating func appendEscaped(_ text: String, _ escapes: (Unicode.Scalar) -> Bool) {
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\u{0}"..<" ", "\"", "\\": appendEscape(of: UInt8(scalar.value))
            case _ where escapes(scalar):
                for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
                    append("\\u")
                    for shift in [12, 8, 4, 0] { bytes.append(ASCII.hexadecimalDigit(UInt8(unit >> shift & 0xF))) }
                }
            default: bytes.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            }
        }
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

    /// Returns the number of bytes that `appendQuoted(_:)` writes if slashes are not escaped.
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

/// The size of a tree, measured before it is written or added to another tree.
package enum JSONExtent: Equatable {
    /// The length of the text in bytes, without whitespace.
    case bytes(Int)
    /// Arrays and objects are nested deeper than the limit.
    case tooDeep
    /// The text is longer than the limit.
    case tooLong
}

extension JSON {
    /// Measures the text of the tree, but stops at the limits.
    package func extent(maximumDepth: Int = .max, maximumLength: Int = .max) -> JSONExtent {
        var meter = Meter(maximumLength: maximumLength)
        meter.add(self, levels: maximumDepth)
        if meter.isTooDeep { return .tooDeep }
        return meter.length > maximumLength ? .tooLong : .bytes(meter.length)
    }

    private struct Meter {
        let maximumLength: Int
        var length = 0
        var isTooDeep = false

        mutating func add(_ value: JSON, levels: Int) {
            switch value {
            case .null: length += 4
            case .bool(let value): length += value ? 4 : 5
            case .number(let number): length += number.text.utf8.count
            case .string(let text): length += JSONOutput.quotedLength(of: text)
            case .array(let elements):
                guard open(elements.count, levels) else { return }
                for element in elements {
                    add(element, levels: levels - 1)
                    if isTooDeep || length > maximumLength { return }
                }
            case .object(let object):
                guard open(object.members.count, levels) else { return }
                for member in object.members {
                    length += JSONOutput.quotedLength(of: member.key) + 1
                    add(member.value, levels: levels - 1)
                    if isTooDeep || length > maximumLength { return }
                }
            }
        }

        /// Counts the brackets and commas of a container.
        private mutating func open(_ count: Int, _ levels: Int) -> Bool {
            if levels <= 0 { isTooDeep = true }
            length += 2 + max(0, count - 1)
            return !isTooDeep && length <= maximumLength
        }
    }
}
