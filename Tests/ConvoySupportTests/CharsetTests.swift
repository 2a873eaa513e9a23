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
            ("windows-1258", [0x61, 0xCC], "à"), ("windows-1258", [0x61], "a"), ("utf-7", Array("+AOk-".utf8), "é"),
            ("utf-16", [0, 0x61], "a"), ("utf-16le", [0x61, 0], "a"), ("utf-16be", [0xD8, 0x3D, 0xDE, 0], "😀"),
            ("utf-32le", [0, 0xF6, 1, 0], "😀"), ("us-ascii", [0x61], "a"), ("utf8", [0xC3, 0xA9], "é"),
            // A mark is no text.
            ("utf-8", [0xEF, 0xBB, 0xBF, 0x61], "a"), ("utf-16le", [0xFF, 0xFE, 0x61, 0], "a"),
            ("utf-16le", [0xFF, 0xFE], ""),
            ("koi8-r", [], ""),
        ] as [(String, [UInt8], String)])
    func `a charset is read by its name`(name: String, bytes: [UInt8], expected: String) throws {
        #expect(try text(name, bytes)?.unicodeScalars.elementsEqual(expected.unicodeScalars) == true)
    }

    @Test(arguments: [
        "", " ", "x-no-such", "utf-8//IGNORE", "//TRANSLIT", "koi8-r/", "a b", "kœi8", "koi8-r\0", "\n",
        String(repeating: "x", count: 1_000_000),
    ])
    func `an unknown name makes no charset`(name: String) {
        #expect(Charset(named: name) == nil)
    }

    @Test(
        arguments: [
            ("utf-8", [0xC3]), ("utf-8", [0xED, 0xA0, 0x80]), ("utf-8", [0xF4, 0x90, 0x80, 0x80]), ("us-ascii", [0xE9]),
            ("euc-kr", [0xB0]), ("gbk", [0x61, 0xC4]), ("gb18030", [0x81, 0x30, 0x81]), ("shift_jis", [0x82]),
            ("big5", [0xA7]),
            ("utf-16le", [0x61]), ("utf-16le", [0, 0xD8]), ("utf-16le", [0, 0xD8, 0x61, 0]),
            ("utf-16be", [0xDC, 0, 0, 0x61]),
            ("utf-32le", [0, 0, 0x11, 0]), ("utf-32le", [0, 0xD8, 0, 0]), ("utf-32le", [0x61, 0, 0]),
            ("iso-2022-jp", [0x1B, 0x24, 0x42, 0x24]), ("iso-2022-jp", [0x1B, 0x24]), ("windows-1253", [0xD2]),
        ] as [(String, [UInt8])])
    func `invalid or incomplete bytes cannot be decoded`(name: String, bytes: [UInt8]) throws {
        #expect(try text(name, bytes) == nil)
        #expect(try text(name, [UInt8](repeating: 0x61, count: 4096 * 4) + bytes) == nil)
    }

    @Test func `a long text is decoded completely, wherever the buffer ends`() throws {
        for length in [1, 4095, 4096, 4097, 100_000] {
            let bytes = [UInt8](repeating: 0xC1, count: length)
            #expect(try text("koi8-r", bytes) == String(repeating: "а", count: length))
            let mixed = [0x61] + [UInt8](repeatElement([0xB0, 0xA1], count: length).joined())
            #expect(try text("euc-kr", mixed) == "a" + String(repeating: "가", count: length))
        }
    }

    @Test func `a mark names its charset`() {
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
