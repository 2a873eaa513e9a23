import Foundation

/// A character encoding, from the WHATWG Encoding Standard, iconv(3) or Foundation.
///
/// All readers of a body choose its charset with ``ofText(_:label:otherwise:)`` or ``ofJSON(_:label:otherwise:)``, so
/// that they all decode the same text.
package struct Charset: Sendable {
    private enum Decoder {
        case standard(StandardCharset.Decoder)
        case foundation(String.Encoding)
    }

    /// The name, for use in messages.
    package let name: String
    /// The nearest Foundation encoding; nil if none is equivalent.
    package let encoding: String.Encoding?
    private let decoder: Decoder

    package static let utf8 = Charset(name: "UTF-8", encoding: .utf8, decoder: .standard(.utf8))

    private init(name: String, encoding: String.Encoding?, decoder: Decoder) {
        self.name = name
        self.encoding = encoding
        self.decoder = decoder
    }

    private init(_ standard: StandardCharset, label: String) {
        // The name `replacement` would not be helpful in a message.
        let name = if case .replacement = standard.decoder { label } else { standard.name }
        self.init(name: name, encoding: standard.encoding, decoder: .standard(standard.decoder))
    }

    /// Creates the charset that corresponds to a Foundation encoding.
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

    /// Creates the charset for a case-insensitive label, with or without quotes. Returns nil if the label is unknown.
    ///
    /// Labels from the WHATWG Encoding Standard take precedence. All others are iconv names.
    package init?(named label: String) {
        let label = label.trimmingCharacters(in: ["\"", "'", " ", "\t", "\r", "\n", "\u{C}"]).lowercased()
        // A slash introduces suffixes like `//IGNORE`, which change how iconv handles errors.
        guard (1...64).contains(label.utf8.count),
            label.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") })
        else { return nil }
        if let standard = StandardCharset.labelled(label) {
            self.init(standard, label: label)
            return
        }
        // The byte order defaults to big-endian if neither the name nor a byte-order mark specifies it.
        let name = label == "utf-32" ? "UTF-32BE" : label.uppercased()
        guard Iconv.supports(name) else { return nil }
        self.init(
            name: name, encoding: Charset.wide.first { $0.value == name }?.key, decoder: .standard(.iconv(name)))
    }

    /// Whether the charset is UTF-8, so that no conversion is needed.
    package var isUTF8: Bool {
        if case .standard(.utf8) = decoder { true } else { false }
    }

    /// Returns the decoded text, without a byte-order mark, or nil if the bytes are invalid in the charset, for example
    /// if they end in the middle of a character.
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
                // Windows code page 936 encodes the euro sign as 0x80.
                rest.first == 0x80 ? ("\u{20AC}", 1) : nil
            }
        case .standard(.big5):
            // Big5 in the standard includes characters from Hong Kong in addition to those from Taiwan.
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
    /// Returns the charset of text, determined by its byte-order mark, or else by the label, or else by the fallback
    /// (WHATWG, Encoding, section 6).
    ///
    /// - Parameters:
    ///   - label: The `charset` of the response, if any.
    ///   - fallback: The charset to use if the text has no byte-order mark and the label is missing or unknown.
    package static func ofText(_ data: Data, label: String?, otherwise fallback: Charset = .utf8) -> Charset {
        unicodeMark(of: data) ?? labelled(label) ?? fallback
    }

    /// Returns the charset of JSON: UTF-8, or UTF-16 or UTF-32 if the bytes indicate it, regardless of the label (RFC
    /// 8259, section 11). The label is used only for bytes that are not valid UTF-8.
    ///
    /// - Parameters: see ``ofText(_:label:otherwise:)``.
    package static func ofJSON(_ data: Data, label: String?, otherwise fallback: Charset = .utf8) -> Charset {
        if let detected = unicodeMark(of: data) ?? wideASCII(in: data) { return detected }
        let named = labelled(label) ?? fallback
        return named.isUTF8 || isUTF8(data) ? .utf8 : named
    }

    /// Returns whether bytes are valid UTF-8.
    package static func isUTF8(_ data: Data) -> Bool { (try? UTF8Span(validating: data.span)) != nil }

    private static func labelled(_ label: String?) -> Charset? {
        guard let label, !label.isEmpty else { return nil }
        // Fast path for the most common labels.
        if label == "utf-8" || label == "UTF-8" { return .utf8 }
        return Charset(named: label)
    }

    /// Returns the charset indicated by a byte-order mark, or nil if the data has none. The little-endian mark of
    /// UTF-32 begins with that of UTF-16.
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

    /// Returns the charset of UTF-16 or UTF-32 text without a byte-order mark that begins with ASCII, as JSON and XML
    /// do. It is detected by the zeros among the first four bytes (RFC 4627, section 3). Returns nil for other text.
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
