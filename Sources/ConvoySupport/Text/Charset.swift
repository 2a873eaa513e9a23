import Foundation

/// The IANA names of the charsets that Foundation can read.
package enum Charset {
    /// The encoding with a name, in any case and with or without quotes; nil for one that is not known.
    package static func encoding(named name: String) -> String.Encoding? {
        switch name.lowercased().trimmingCharacters(in: ["\"", "'", " "]) {
        case "utf-8", "utf8": .utf8
        case "us-ascii", "ascii": .ascii
        case "iso-8859-1", "iso_8859-1", "latin1", "l1", "cp819": .isoLatin1
        case "iso-8859-2", "iso_8859-2", "latin2": .isoLatin2
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
        case "iso-2022-jp": .iso2022JP
        case "macintosh": .macOSRoman
        case let other: coreFoundation[other].map { String.Encoding(rawValue: 0x8000_0000 | $0) }
        }
    }

    /// Encodings that `String.Encoding` has no names for, by their numbers in CoreFoundation (`CFStringEncodingExt.h`).
    private static let coreFoundation: [String: UInt] = [
        "iso-8859-3": 0x203, "iso-8859-4": 0x204, "iso-8859-5": 0x205, "iso-8859-6": 0x206, "iso-8859-7": 0x207,
        "iso-8859-8": 0x208, "iso-8859-9": 0x209, "iso-8859-10": 0x20A, "iso-8859-13": 0x20D, "iso-8859-14": 0x20E,
        "iso-8859-15": 0x20F, "windows-874": 0x41D, "tis-620": 0x41D, "windows-1255": 0x505, "windows-1256": 0x506,
        "windows-1257": 0x507, "windows-1258": 0x508, "gb2312": 0x632, "gbk": 0x632, "gb18030": 0x632,
        "euc-kr": 0x940, "koi8-r": 0xA02, "koi8-u": 0xA08, "big5": 0xA03,
    ]

    /// The encoding that a byte-order mark names. UTF-32's little-endian mark begins with UTF-16's.
    package static func unicodeMark(of data: Data) -> String.Encoding? {
        guard let first = data.first, first == 0xEF || first >= 0xFE || first == 0 else { return nil }
        let head = Array(data.prefix(4))
        if head.starts(with: [0xEF, 0xBB, 0xBF]) { return .utf8 }
        if head.starts(with: [0xFF, 0xFE, 0x00, 0x00]) { return .utf32LittleEndian }
        if head.starts(with: [0x00, 0x00, 0xFE, 0xFF]) { return .utf32BigEndian }
        if head.starts(with: [0xFF, 0xFE]) { return .utf16LittleEndian }
        if head.starts(with: [0xFE, 0xFF]) { return .utf16BigEndian }
        return nil
    }
}
