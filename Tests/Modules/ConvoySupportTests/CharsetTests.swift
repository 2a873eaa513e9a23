import Foundation
import Testing

@testable import ConvoySupport

@Suite struct CharsetTests {
    private func text(_ name: String, _ bytes: [UInt8]) throws -> String? {
        try #require(Charset(named: name), "\(name)").text(of: Data(bytes))
    }

    @Test(
        arguments: [
            ("koi8-r", [0xC1], "а"), ("KOI8-U", [0xA4], "є"), ("gb18030", [0x81, 0x30, 0x81, 0x30], "\u{80}"),
            ("gb2312", [0xC4, 0xE3], "你"), ("euc-kr", [0xB0, 0xA1], "가"), ("iso-8859-15", [0xA4], "€"),
            ("\"ISO_8859-1\"", [0xE9], "é"), ("latin1", [0xE9], "é"), ("cp819", [0xE9], "é"), ("macintosh", [0x8E], "é"),
            ("windows-1251", [0xE0], "а"), ("tis-620", [0xA1], "ก"), ("big5", [0xA7, 0x41], "你"),
            ("euc-jp", [0xA4, 0xA2], "あ"),
            ("Shift_JIS", [0x5C, 0x7E, 0x82, 0xA0, 0x87, 0x40], "\\~あ①"),
            ("iso-2022-jp", [0x1B, 0x24, 0x42, 0x24, 0x22], "あ"),
            ("windows-1258", [0x61, 0xCC], "a\u{300}"), ("windows-1258", [0x61], "a"), ("utf-7", Array("+AOk-".utf8), "é"),
            ("utf-16", [0x61, 0], "a"), ("utf-32", [0, 0, 0, 0x61], "a"), ("utf-16le", [0x61, 0], "a"),
            ("utf-16be", [0xD8, 0x3D, 0xDE, 0], "😀"),
            ("utf-32le", [0, 0xF6, 1, 0], "😀"), ("us-ascii", [0x61], "a"), ("utf8", [0xC3, 0xA9], "é"),
            // A byte-order mark is not part of the text.
            ("utf-8", [0xEF, 0xBB, 0xBF, 0x61], "a"), ("utf-16le", [0xFF, 0xFE, 0x61, 0], "a"),
            ("utf-16le", [0xFF, 0xFE], ""),
            ("koi8-r", [], ""), ("replacement", [], ""),
            ("windows-1252", [0x81], "\u{81}"), ("windows-1251", [0x98], "\u{98}"), ("tis-620", [0x85], "…"),
            ("macintosh", [0xC6, 0xF0], "\u{2206}\u{F8FF}"), ("x-mac-cyrillic", [0xFF], "€"),
            ("koi8-u", [0xAE, 0xBE], "ўЎ"), ("windows-1255", [0xCA], "\u{5BA}"),
            ("gbk", [0x80, 0xC4, 0xE3, 0x80], "€你€"), ("big5", [0xA1, 0x45, 0xF9, 0xD6, 0x87, 0x40], "\u{2027}碁\u{43F0}"),
            // These bytes are NEC's row 13, the IBM extensions, half-width katakana, and JIS X 0212.
            ("euc-jp", [0xAD, 0xA1, 0xF9, 0xA1, 0x8E, 0xB1, 0x8F, 0xB0, 0xA1], "①纊ｱ丂"),
            ("iso-2022-jp", [0x1B, 0x24, 0x42, 0x2D, 0x21, 0x0A, 0x79, 0x21, 0x1B, 0x28, 0x42, 0x61], "①\n纊a"),
            ("iso-2022-jp", [0x1B, 0x28, 0x4A, 0x5C, 0x7E, 0x1B, 0x28, 0x49, 0x31], "¥‾ｱ"),
        ] as [(String, [UInt8], String)])
    func `a charset is recognized by its name`(name: String, bytes: [UInt8], expected: String) throws {
        #expect(try text(name, bytes)?.unicodeScalars.elementsEqual(expected.unicodeScalars) == true)
    }

    @Test(arguments: [
        "", " ", "x-no-such", "utf-8//IGNORE", "//TRANSLIT", "koi8-r/", "a b", "kœi8", "koi8-r\0", "\n",
        String(repeating: "x", count: 1_000_000),
    ])
    func `an unknown name has no charset`(name: String) {
        #expect(Charset(named: name) == nil)
    }

    @Test(
        arguments: [
            ("utf-8", [0xC3]), ("utf-8", [0xED, 0xA0, 0x80]), ("utf-8", [0xF4, 0x90, 0x80, 0x80]),
            ("euc-kr", [0xB0]), ("gbk", [0x61, 0xC4]), ("gb18030", [0x81, 0x30, 0x81]), ("shift_jis", [0x82]),
            ("big5", [0xA7]),
            ("utf-16le", [0x61]), ("utf-16le", [0, 0xD8]), ("utf-16le", [0, 0xD8, 0x61, 0]),
            ("utf-16be", [0xDC, 0, 0, 0x61]),
            ("utf-32le", [0, 0, 0x11, 0]), ("utf-32le", [0, 0xD8, 0, 0]), ("utf-32le", [0x61, 0, 0]),
            ("euc-jp", [0x80]), ("euc-jp", [0x8E, 0xE0]), ("euc-jp", [0x8F, 0xB0]), ("euc-jp", [0xA9, 0xA1]),
            ("iso-2022-jp", [0x80]), ("iso-2022-jp", [0x1B, 0x28, 0x41]), ("iso-2022-kr", [0x61]),
            ("iso-2022-jp", [0x1B, 0x24, 0x42, 0x24]), ("iso-2022-jp", [0x1B, 0x24]), ("windows-1253", [0xD2]),
        ] as [(String, [UInt8])])
    func `invalid or incomplete bytes cannot be decoded`(name: String, bytes: [UInt8]) throws {
        #expect(try text(name, bytes) == nil)
        #expect(try text(name, [UInt8](repeating: 0x61, count: 4096 * 4) + bytes) == nil)
    }

    @Test func `long text is decoded completely at every buffer boundary`() throws {
        for length in [1, 4095, 4096, 4097, 100_000] {
            let bytes = [UInt8](repeating: 0xC1, count: length)
            #expect(try text("koi8-r", bytes) == String(repeating: "а", count: length))
            let mixed = [0x61] + [UInt8](repeatElement([0xB0, 0xA1], count: length).joined())
            #expect(try text("euc-kr", mixed) == "a" + String(repeating: "가", count: length))
        }
    }

    /// A text in each encoding of the WHATWG Encoding Standard; nil if it is never decoded.
    private static let samples: [String: (bytes: [UInt8], text: String?)] = [
        "UTF-8": ([0xC3, 0xA9], "é"), "IBM866": ([0x80], "А"), "ISO-8859-2": ([0xB1], "ą"), "ISO-8859-3": ([0xB1], "ħ"),
        "ISO-8859-4": ([0xB1], "ą"), "ISO-8859-5": ([0xB1], "Б"), "ISO-8859-6": ([0xC7], "ا"),
        "ISO-8859-7": ([0xE1, 0xA4], "α€"), "ISO-8859-8": ([0xE0], "א"), "ISO-8859-8-I": ([0xE0], "א"),
        "ISO-8859-10": ([0xB1], "ą"), "ISO-8859-13": ([0xE0], "ą"), "ISO-8859-14": ([0xA1], "Ḃ"),
        "ISO-8859-15": ([0xA4], "€"), "ISO-8859-16": ([0xAA], "Ș"), "KOI8-R": ([0xC1], "а"), "KOI8-U": ([0xA4], "є"),
        "macintosh": ([0x8E], "é"), "windows-874": ([0x85, 0xA1], "…ก"), "windows-1250": ([0x9C], "ś"),
        "windows-1251": ([0xE0], "а"), "windows-1252": ([0x93, 0xE9, 0x80, 0x94], "“é€”"), "windows-1253": ([0xE1], "α"),
        "windows-1254": ([0xFD, 0x80], "ı€"), "windows-1255": ([0xE0], "א"), "windows-1256": ([0xC7], "ا"),
        "windows-1257": ([0xE0], "ą"), "windows-1258": ([0xF0], "đ"), "x-mac-cyrillic": ([0xE0], "а"),
        "GBK": ([0xC4, 0xE3], "你"), "gb18030": ([0x81, 0x30, 0x81, 0x30], "\u{80}"), "Big5": ([0xA7, 0x41], "你"),
        "EUC-JP": ([0xA4, 0xA2, 0xAD, 0xA1], "あ①"),
        "ISO-2022-JP": ([0x1B, 0x24, 0x42, 0x24, 0x22, 0x2D, 0x21, 0x1B, 0x28, 0x42], "あ①"),
        "Shift_JIS": ([0x82, 0xA0, 0x87, 0x40], "あ①"), "EUC-KR": ([0xB0, 0xA1, 0x81, 0x41], "가갂"),
        "replacement": ([0x61], nil), "UTF-16BE": ([0, 0xE9], "é"), "UTF-16LE": ([0xE9, 0], "é"),
        "x-user-defined": ([0x61, 0x80, 0xFF], "a\u{F780}\u{F7FF}"),
    ]

    @Test(arguments: StandardCharset.all.map(\.name))
    func `all labels of the standard name their encoding`(name: String) throws {
        let charset = try #require(StandardCharset.all.first { $0.name == name })
        let sample = try #require(Self.samples[name])
        for label in charset.labels {
            for spelling in [String(label), label.uppercased(), "\t\"\(label)\" "] {
                let found = try #require(Charset(named: spelling), "\(spelling)")
                #expect(found.text(of: Data(sample.bytes)) == sample.text, "\(spelling)")
                #expect(found.name == (sample.text == nil ? String(label) : name))
            }
        }
    }

    @Test func `the standard has forty encodings with 228 different labels`() {
        #expect(StandardCharset.all.count == 40 && Self.samples.count == 40)
        #expect(Set(StandardCharset.all.flatMap(\.labels)).count == 228)
    }

    @Test func `single-byte encodings contain ASCII and have only the standard's gaps`() throws {
        let gaps = [
            "ISO-8859-3": 7, "ISO-8859-6": 45, "ISO-8859-7": 3, "ISO-8859-8": 36, "ISO-8859-8-I": 36, "windows-874": 8,
            "windows-1253": 3, "windows-1255": 10, "windows-1257": 2,
        ]
        for charset in StandardCharset.all {
            guard case .singleByte = charset.decoder else { continue }
            let decoded = try #require(Charset(named: String(charset.labels[0])))
            for byte in UInt8(0)..<0x80 {
                #expect(decoded.text(of: Data([byte])) == String(Unicode.Scalar(byte)), "\(charset.name) \(byte)")
            }
            let valid = (UInt8(0x80)...0xFF).count { decoded.text(of: Data([$0]))?.unicodeScalars.count == 1 }
            #expect(128 - valid == gaps[charset.name, default: 0], "\(charset.name)")
        }
    }

    @Test func `a byte-order mark overrides a label, and JSON needs no label`() {
        let utf8 = Data("é".utf8)
        #expect(Charset.ofText(utf8, label: "iso-8859-1").name == "windows-1252")
        #expect(Charset.ofText(utf8, label: "x-none", otherwise: Charset(.shiftJIS)).name == "Shift_JIS")
        #expect(Charset.ofText([0xEF, 0xBB, 0xBF] + utf8, label: "iso-8859-1").isUTF8)
        #expect(Charset.ofText(Data([0xFF, 0xFE, 0x61, 0]), label: "utf-16be").name == "UTF-16LE")
        #expect(Charset.ofText(Data([0, 0x61]), label: nil).isUTF8)
        for label in [nil, "iso-8859-1", "utf-16", "euc-jp", "hz-gb-2312"] {
            #expect(Charset.ofJSON(utf8, label: label).isUTF8)
            #expect(Charset.ofJSON(Data([0, 0x5B, 0, 0x5D]), label: label).name == "UTF-16BE")
            #expect(Charset.ofJSON(Data([0x5B, 0, 0, 0]), label: label).name == "UTF-32LE")
            #expect(Charset.ofJSON(Data([0x5B, 0, 0x5D, 0]), label: label).name == "UTF-16LE")
        }
        #expect(Charset.ofJSON(Data([0xE9]), label: "iso-8859-1").name == "windows-1252")
        #expect(Charset.ofJSON(Data([0xE9]), label: nil).isUTF8)
    }

    @Test func `a byte-order mark identifies its charset`() {
        for (bytes, expected) in [
            ([0xEF, 0xBB, 0xBF, 0x61], "a"), ([0xFF, 0xFE, 0x61, 0], "a"), ([0xFE, 0xFF, 0, 0x61], "a"),
            ([0xFF, 0xFE, 0, 0, 0x61, 0, 0, 0], "a"), ([0, 0, 0xFE, 0xFF, 0, 0, 0, 0x61], "a"), ([0xFE, 0xFF], ""),
        ] as [([UInt8], String)] {
            #expect(Charset.unicodeMark(of: Data(bytes))?.text(of: Data(bytes)) == expected)
        }
        for bytes in [[], [0xEF], [0xEF, 0xBB], [0xFF], [0xFE], [0, 0, 0xFE], [0x61]] as [[UInt8]] {
            #expect(Charset.unicodeMark(of: Data(bytes)) == nil)
        }
    }
}
