import Foundation
import FoundationNetworking

/// Which encoding a body is in, and the body in UTF-8 for the parsers that want it so.
extension HTTPResponseSerializer {
    /// The encoding that the response names or, where it names none that is known, ``stringEncoding``.
    func encoding(of response: URLResponse?) -> String.Encoding {
        guard let name = response?.textEncodingName?.trimmingCharacters(in: .whitespaces), !name.isEmpty else {
            return stringEncoding
        }
        return Charset.encoding(named: name) ?? stringEncoding
    }

    /// The text of a body, without its byte-order mark.
    func text(_ data: Data, response: URLResponse?) throws -> String {
        guard let text = String(data: data, encoding: Charset.unicodeMark(of: data) ?? encoding(of: response)) else {
            throw ResponseTextError.undecodable(data, response)
        }
        return text.unicodeScalars.first == "\u{FEFF}" ? String(text.unicodeScalars.dropFirst()) : text
    }

    /// The body itself where it is UTF-8 (or ASCII), and a translation only where it is not.
    func utf8(_ data: Data, response: URLResponse?) throws -> Data {
        // A byte-order mark tells more surely than a header that may be a server's habit.
        let encoding = Charset.unicodeMark(of: data) ?? encoding(of: response)
        if encoding == .utf8 || encoding == .ascii { return data }
        return Data(try text(data, response: response).utf8)
    }
}

enum ResponseTextError {
    /// AFNetworking's error for text that cannot be read. It makes none where the bytes do not fit the encoding.
    static func undecodable(_ data: Data, _ response: URLResponse?) -> NSError {
        NSError.response(
            NSURLErrorCannotDecodeContentData, "Data failed decoding as a UTF-8 string", response, data: data
        ).adding("Could not decode string: \(data.count) bytes", for: NSLocalizedFailureReasonErrorKey)
    }
}

/// The IANA names of the charsets that Foundation can read.
enum Charset {
    static func encoding(named name: String) -> String.Encoding? {
        switch name.lowercased().trimmingCharacters(in: ["\"", "'"]) {
        case "utf-8", "utf8": .utf8
        case "us-ascii", "ascii": .ascii
        case "iso-8859-1", "latin1", "iso_8859-1", "l1", "cp819": .isoLatin1
        case "iso-8859-2", "latin2": .isoLatin2
        case "utf-16": .utf16
        case "utf-16le": .utf16LittleEndian
        case "utf-16be": .utf16BigEndian
        case "utf-32": .utf32
        case "utf-32le": .utf32LittleEndian
        case "utf-32be": .utf32BigEndian
        case "windows-1250", "cp1250": .windowsCP1250
        case "windows-1251", "cp1251": .windowsCP1251
        case "windows-1252", "cp1252": .windowsCP1252
        case "windows-1253", "cp1253": .windowsCP1253
        case "windows-1254", "cp1254": .windowsCP1254
        case "shift_jis", "shift-jis", "sjis": .shiftJIS
        case "euc-jp": .japaneseEUC
        case "iso-2022-jp": .iso2022JP
        case "macintosh": .macOSRoman
        default: nil
        }
    }

    /// The encoding that a byte-order mark names. UTF-32's little-endian mark begins with UTF-16's.
    static func unicodeMark(of data: Data) -> String.Encoding? {
        let head = Array(data.prefix(4))
        if head.starts(with: [0xEF, 0xBB, 0xBF]) { return .utf8 }
        if head.starts(with: [0xFF, 0xFE, 0x00, 0x00]) { return .utf32LittleEndian }
        if head.starts(with: [0x00, 0x00, 0xFE, 0xFF]) { return .utf32BigEndian }
        if head.starts(with: [0xFF, 0xFE]) { return .utf16LittleEndian }
        if head.starts(with: [0xFE, 0xFF]) { return .utf16BigEndian }
        return nil
    }
}
