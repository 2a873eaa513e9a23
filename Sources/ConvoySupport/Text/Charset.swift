import Foundation

/// A charset that iconv(3) or Foundation can decode.
package struct Charset: Sendable {
    private enum Reader {
        case iconv(String)
        case foundation(String.Encoding)
    }

    private let reader: Reader

    package static let utf8 = Charset(.utf8)

    /// The charset of one of Foundation's encodings.
    package init(_ encoding: String.Encoding) {
        // ASCII is a subset of UTF-8.
        reader = .foundation(encoding == .ascii ? .utf8 : encoding)
    }

    /// The charset of an IANA name, in any case and with or without quotes; nil for an unknown one.
    package init?(named name: String) {
        let name = name.trimmingCharacters(in: ["\"", "'", " "]).uppercased()
        // A slash begins suffixes such as `//IGNORE`, which change how iconv treats errors.
        guard (1...64).contains(name.utf8.count), name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") })
        else {
            return nil
        }
        if ["UTF-8", "UTF8", "US-ASCII", "ASCII"].contains(name) {
            self = .utf8
            return
        }
        let meant = Charset.meant[name] ?? name
        guard let converter = Charset.converter(from: meant) else { return nil }
        iconv_close(converter)
        reader = .iconv(meant)
    }

    /// The charsets that some names stand for: the superset that is used in practice (WHATWG, Encoding, section 4.2),
    /// and big-endian order if neither the name nor a mark says otherwise (RFC 2781, section 4.3).
    private static let meant = [
        "SHIFT_JIS": "CP932", "SHIFT-JIS": "CP932", "SJIS": "CP932", "X-SJIS": "CP932", "EUC-KR": "CP949",
        "KS_C_5601-1987": "CP949", "GB2312": "GB18030", "GBK": "GB18030", "X-GBK": "GB18030", "TIS-620": "CP874",
        "UTF-16": "UTF-16BE", "UTF-32": "UTF-32BE",
    ]

    /// The nearest Foundation encoding; nil if there is none.
    package var encoding: String.Encoding? {
        switch reader {
        case .foundation(let encoding): encoding
        case .iconv(let name): Charset.encodings[name]
        }
    }

    private static let encodings: [String: String.Encoding] = [
        "ISO-8859-1": .isoLatin1, "ISO_8859-1": .isoLatin1, "LATIN1": .isoLatin1, "ISO-8859-2": .isoLatin2,
        "ISO_8859-2": .isoLatin2, "LATIN2": .isoLatin2, "CP932": .shiftJIS, "ISO-2022-JP": .iso2022JP,
        "EUC-JP": .japaneseEUC, "MACINTOSH": .macOSRoman, "WINDOWS-1250": .windowsCP1250, "CP1250": .windowsCP1250,
        "WINDOWS-1251": .windowsCP1251, "CP1251": .windowsCP1251, "WINDOWS-1252": .windowsCP1252, "CP1252": .windowsCP1252,
        "WINDOWS-1253": .windowsCP1253, "CP1253": .windowsCP1253, "WINDOWS-1254": .windowsCP1254, "CP1254": .windowsCP1254,
        "UTF-16BE": .utf16BigEndian, "UTF-16LE": .utf16LittleEndian, "UTF-32BE": .utf32BigEndian,
        "UTF-32LE": .utf32LittleEndian,
    ]

    /// Whether the bytes are UTF-8 without conversion.
    package var isUTF8: Bool {
        if case .foundation(.utf8) = reader { true } else { false }
    }

    /// The decoded text, without a byte-order mark; nil if the bytes are invalid in the charset, for example if they
    /// end in the middle of a character.
    package func text(of data: Data) -> String? {
        let text: String?
        switch reader {
        case .foundation(let encoding): text = String(data: data, encoding: encoding)
        case .iconv(let name): text = Charset.text(of: data, named: name)
        }
        guard let text, text.unicodeScalars.first == "\u{FEFF}" else { return text }
        return String(text.unicodeScalars.dropFirst())
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

    // MARK: iconv

    private static func converter(from name: String) -> iconv_t? {
        let converter = iconv_open("UTF-8", name)
        return converter == iconv_t(bitPattern: -1) ? nil : converter
    }

    private static func text(of data: Data, named name: String) -> String? {
        guard let converter = converter(from: name) else { return nil }
        defer { iconv_close(converter) }
        var output: [UInt8] = []
        output.reserveCapacity(data.count)
        let isWhole = data.withUnsafeBytes { bytes -> Bool in
            var input = UnsafeMutablePointer(mutating: bytes.bindMemory(to: CChar.self).baseAddress)
            var left = bytes.count
            while left > 0 {
                // A full buffer is not a failure.
                guard append(to: &output, { iconv(converter, &input, &left, $0, $1) }) || errno == E2BIG else {
                    return false
                }
            }
            // Some charsets hold a letter back until they know whether an accent follows.
            return append(to: &output) { iconv(converter, nil, nil, $0, $1) }
        }
        return isWhole ? String(validating: output, as: UTF8.self) : nil
    }

    /// Appends the output of a call of iconv. False if it fails, with `errno` set.
    private static func append(
        to output: inout [UInt8],
        _ convert: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, UnsafeMutablePointer<Int>) -> Int
    ) -> Bool {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4096) { buffer in
            var end = buffer.baseAddress
            var room = buffer.count
            let result = convert(&end, &room)
            let failure = errno
            output.append(contentsOf: UnsafeRawBufferPointer(buffer).prefix(buffer.count - room))
            errno = failure
            return result != -1
        }
    }
}
