import Foundation

/// How the bytes of a text are decoded: by an encoding of the WHATWG Encoding Standard, of iconv(3) or of Foundation.
///
/// Every reader of a body chooses its charset with ``ofText(_:label:otherwise:)`` or ``ofJSON(_:label:otherwise:)``, so
/// that they all read the same text.
package struct Charset: Sendable {
    private enum Decoder {
        case standard(StandardCharset.Decoder)
        case foundation(String.Encoding)
    }

    /// The name, for messages.
    package let name: String
    /// The nearest Foundation encoding; nil if there is none.
    package let encoding: String.Encoding?
    private let decoder: Decoder

    package static let utf8 = Charset(name: "UTF-8", encoding: .utf8, decoder: .standard(.utf8))

    private init(name: String, encoding: String.Encoding?, decoder: Decoder) {
        (self.name, self.encoding, self.decoder) = (name, encoding, decoder)
    }

    private init(_ standard: StandardCharset, label: String) {
        // The name `replacement` would not help a reader of a message.
        let name = if case .replacement = standard.decoder { label } else { standard.name }
        self.init(name: name, encoding: standard.encoding, decoder: .standard(standard.decoder))
    }

    /// The charset of one of Foundation's encodings.
    package init(_ encoding: String.Encoding) {
        // ASCII is a subset of UTF-8.
        if encoding == .utf8 || encoding == .ascii {
            self = .utf8
        } else if let wide = Charset.wide[encoding] {
            self.init(name: wide, encoding: encoding, decoder: .standard(.iconv(wide)))
        } else if let standard = StandardCharset.of(encoding) {
            self.init(standard, label: standard.name)
        } else {
            self.init(name: "\(encoding)", encoding: encoding, decoder: .foundation(encoding))
        }
    }

    private static let wide: [String.Encoding: String] = [
        .utf16BigEndian: "UTF-16BE", .utf16LittleEndian: "UTF-16LE", .utf32BigEndian: "UTF-32BE",
        .utf32LittleEndian: "UTF-32LE",
    ]

    /// The charset of a label, in any case and with or without quotes; nil for an unknown one.
    ///
    /// A label of the WHATWG Encoding Standard is that encoding. Other names are those of iconv.
    package init?(named label: String) {
        let label = label.trimmingCharacters(in: ["\"", "'", " ", "\t", "\r", "\n", "\u{C}"]).lowercased()
        // A slash begins suffixes such as `//IGNORE`, which change how iconv treats errors.
        guard (1...64).contains(label.utf8.count),
            label.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") })
        else { return nil }
        if let standard = StandardCharset.labelled(label) {
            self.init(standard, label: label)
            return
        }
        // Big-endian, if neither the name nor a mark specifies the order.
        let name = label == "utf-32" ? "UTF-32BE" : label.uppercased()
        guard Iconv.supports(name) else { return nil }
        self.init(
            name: name, encoding: Charset.wide.first { $0.value == name }?.key, decoder: .standard(.iconv(name)))
    }

    /// Whether the bytes are UTF-8 without conversion.
    package var isUTF8: Bool {
        if case .standard(.utf8) = decoder { true } else { false }
    }

    /// The decoded text, without a byte-order mark; nil if the bytes are invalid in the charset, for example if they
    /// end in the middle of a character.
    package func text(of data: Data) -> String? {
        let text = decoded(data)
        guard let text, text.unicodeScalars.first == "\u{FEFF}" else { return text }
        return String(text.unicodeScalars.dropFirst())
    }

    private func decoded(_ data: Data) -> String? {
        switch decoder {
        case .foundation(let encoding): String(data: data, encoding: encoding)
        case .standard(.utf8): String(data: data, encoding: .utf8)
        case .standard(.iconv(let name)): Iconv.text(of: data, named: name)
        case .standard(.singleByte(let name)): SingleByteTable.named(name)?.text(of: data)
        case .standard(.gb18030):
            Iconv.text(of: data, named: "GB18030") { rest in
                // The euro sign of Windows' code page 936.
                rest.first == 0x80 ? ("\u{20AC}", 1) : nil
            }
        case .standard(.big5):
            // The characters of Hong Kong supplement those of Taiwan.
            Iconv.text(of: data, named: "BIG5") { rest in
                let pair = Data(rest.prefix(2))
                return Iconv.text(of: pair, named: "BIG5-HKSCS").map { ($0, pair.count) }
            }
        case .standard(.eucJP): JapaneseText.eucJP(data)
        case .standard(.iso2022JP): JapaneseText.iso2022JP(data)
        case .standard(.userDefined):
            String(
                String.UnicodeScalarView(
                    data.compactMap { Unicode.Scalar($0 < 0x80 ? UInt32($0) : UInt32($0) + 0xF700) }))
        case .standard(.replacement): data.isEmpty ? "" : nil
        }
    }
}

// MARK: The charset of a body

extension Charset {
    /// The charset of a text: that of its byte-order mark, otherwise the one that the label names, otherwise the given one
    /// (WHATWG, Encoding, section 6).
    ///
    /// - Parameters:
    ///   - label: the `charset` of the response; nil for none.
    ///   - fallback: the charset if there is neither a mark nor a known label.
    package static func ofText(_ data: Data, label: String?, otherwise fallback: Charset = .utf8) -> Charset {
        unicodeMark(of: data) ?? labelled(label) ?? fallback
    }

    /// The charset of JSON: UTF-8, or the UTF-16 or UTF-32 that the bytes reveal, whatever the label (RFC 8259, section
    /// 11). Only bytes that are not valid UTF-8 are read like a text.
    ///
    /// - Parameters: as of ``ofText(_:label:otherwise:)``.
    package static func ofJSON(_ data: Data, label: String?, otherwise fallback: Charset = .utf8) -> Charset {
        if let detected = unicodeMark(of: data) ?? wideASCII(in: data) { return detected }
        let named = labelled(label) ?? fallback
        return named.isUTF8 || isUTF8(data) ? .utf8 : named
    }

    /// Whether bytes are valid UTF-8.
    package static func isUTF8(_ data: Data) -> Bool { (try? UTF8Span(validating: data.span)) != nil }

    private static func labelled(_ label: String?) -> Charset? {
        guard let label, !label.isEmpty else { return nil }
        // The most common labels, without trimming and look-up.
        if label == "utf-8" || label == "UTF-8" { return .utf8 }
        return Charset(named: label)
    }

    /// The charset of a byte-order mark; nil if there is none. UTF-32's little-endian mark begins with UTF-16's.
    package static func unicodeMark(of data: Data) -> Charset? {
        guard let first = data.first, first == 0xEF || first >= 0xFE || first == 0 else { return nil }
        let head = Array(data.prefix(4))
        if head.starts(with: [0xEF, 0xBB, 0xBF]) { return .utf8 }
        if head.starts(with: [0xFF, 0xFE, 0x00, 0x00]) { return Charset(.utf32LittleEndian) }
        if head.starts(with: [0x00, 0x00, 0xFE, 0xFF]) { return Charset(.utf32BigEndian) }
        if head.starts(with: [0xFF, 0xFE]) { return Charset(.utf16LittleEndian) }
        if head.starts(with: [0xFE, 0xFF]) { return Charset(.utf16BigEndian) }
        return nil
    }

    /// UTF-16 or UTF-32 without a byte-order mark, of a text that begins with ASCII, as JSON and XML do: the zeros among
    /// the first four bytes reveal it (RFC 4627, section 3). nil for anything else.
    package static func wideASCII(in data: Data) -> Charset? {
        guard data.count >= 2, data[data.startIndex] == 0 || data[data.startIndex + 1] == 0,
            unicodeMark(of: data) == nil
        else { return nil }
        let zeros = data.prefix(4).map { $0 == 0 }
        return switch (zeros[0], zeros[1], zeros.count > 2 ? zeros[2] : nil) {
        case (true, true, _): Charset(.utf32BigEndian)
        case (false, true, true): Charset(.utf32LittleEndian)
        case (true, false, _): Charset(.utf16BigEndian)
        case (false, true, _): Charset(.utf16LittleEndian)
        default: nil
        }
    }
}
