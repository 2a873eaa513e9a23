#if WebKit
import ConvoySupport
import Foundation

extension Charset {
    /// Returns the charset of an HTML page: that of its byte-order mark, or else that of the response, or else that which
    /// the page declares (HTML Living Standard, section 13.2.3.2). A page without any of these is UTF-8 if its bytes are
    /// valid, and otherwise windows-1252.
    static func ofHTML(_ data: Data, label: String?) -> Charset {
        let fallback = isUTF8(data) ? nil : Charset(named: "windows-1252")
        return ofText(data, label: label, otherwise: declared(in: data) ?? fallback ?? .utf8)
    }

    /// Returns the charset that a `meta` element within the first 1024 bytes declares.
    private static func declared(in data: Data) -> Charset? {
        var scanner = HTMLScanner(data.prefix(1024))
        guard let charset = scanner.declaredLabel.flatMap(Charset.init(named:)) else { return nil }
        // The declaration could not be read in UTF-16.
        return charset.name.uppercased().hasPrefix("UTF-16") ? .utf8 : charset
    }
}

/// A scanner of the bytes of a page for the declaration of its encoding.
private struct HTMLScanner {
    private let bytes: [UInt8]
    private var offset = 0

    init(_ data: Data) { bytes = Array(data) }

    /// The label of the encoding.
    var declaredLabel: String? {
        mutating get {
            while let start = bytes[offset...].firstIndex(of: UInt8(ascii: "<")) {
                offset = start
                if isNext("<!--") {
                    skipComment()
                } else if isNext("<meta"), isSeparator(offset + 5) {
                    offset += 5
                    if let label = metaLabel() { return label }
                } else if isNext("<!") || isNext("</") && !isLetter(offset + 2) || isNext("<?") {
                    skip(past: UInt8(ascii: ">"))
                } else if isLetter(offset + 1) || isNext("</") {
                    skipTag()
                } else {
                    offset += 1
                }
            }
            return nil
        }
    }

    private func byte(_ index: Int) -> UInt8 { index < bytes.count ? bytes[index] : 0 }
    private func isLetter(_ index: Int) -> Bool { (0x61...0x7A).contains(byte(index) | 0x20) }
    private func isSpace(_ index: Int) -> Bool {
        index < bytes.count && [0x09, 0x0A, 0x0C, 0x0D, 0x20].contains(bytes[index])
    }
    private func isSeparator(_ index: Int) -> Bool { isSpace(index) || byte(index) == UInt8(ascii: "/") }

    private func isNext(_ text: StaticString) -> Bool {
        text.withUTF8Buffer { text in
            text.indices.allSatisfy { index in
                let (found, wanted) = (byte(offset + index), text[index])
                return found == wanted || (0x41...0x5A).contains(found) && found | 0x20 == wanted
            }
        }
    }

    private mutating func skip(past end: UInt8) { offset = (bytes[offset...].firstIndex(of: end) ?? bytes.count - 1) + 1 }

    private mutating func skipComment() {
        // The two hyphens at the beginning may also be those of the end.
        offset += 2
        while offset < bytes.count, !isNext("-->") { offset += 1 }
        offset = min(offset + 3, bytes.count)
    }

    private mutating func skipTag() {
        while offset < bytes.count, !isSpace(offset), byte(offset) != UInt8(ascii: ">") { offset += 1 }
        while attribute() != nil {}
    }

    /// Returns the label in the attributes of a `meta` element.
    private mutating func metaLabel() -> String? {
        var seen: Set<String> = []
        var isPragma = false
        var label: (text: String, needsPragma: Bool)?
        while let (name, value) = attribute() {
            guard seen.insert(name).inserted else { continue }
            switch name {
            case "http-equiv": isPragma = value == "content-type"
            case "charset": label = (value, false)
            case "content": if label == nil, let text = Self.label(inContent: value) { label = (text, true) }
            default: break
            }
        }
        guard let label, !label.needsPragma || isPragma else { return nil }
        return label.text
    }

    /// Returns the next attribute of a tag in lower case, or nil after the tag.
    private mutating func attribute() -> (name: String, value: String)? {
        while isSeparator(offset) { offset += 1 }
        guard offset < bytes.count, byte(offset) != UInt8(ascii: ">") else { return nil }
        let name = word { $0 == UInt8(ascii: "=") && $1 > 0 || $0 == UInt8(ascii: "/") }
        while isSpace(offset) { offset += 1 }
        guard byte(offset) == UInt8(ascii: "=") else { return (name, "") }
        offset += 1
        while isSpace(offset) { offset += 1 }
        let quote = byte(offset)
        guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { return (name, word { _, _ in false }) }
        offset += 1
        let end = bytes[min(offset, bytes.count)...].firstIndex(of: quote) ?? bytes.count
        defer { offset = min(end + 1, bytes.count) }
        return (name, Self.text(bytes[min(offset, end)..<end]))
    }

    /// Returns the bytes up to a space, the end of the tag or a byte that the closure names.
    private mutating func word(until isEnd: (_ byte: UInt8, _ length: Int) -> Bool) -> String {
        let start = offset
        while offset < bytes.count, !isSpace(offset), byte(offset) != UInt8(ascii: ">"),
            !isEnd(bytes[offset], offset - start)
        {
            offset += 1
        }
        return Self.text(bytes[start..<offset])
    }

    private static func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self).lowercased() }

    /// Returns the label in a content type, such as `text/html; charset=utf-8`.
    private static func label(inContent content: String) -> String? {
        let pattern = /charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^"'\s;][^\s;]*))/
        guard let match = content.firstMatch(of: pattern) else { return nil }
        return (match.1 ?? match.2 ?? match.3).map(String.init)
    }
}
#endif
