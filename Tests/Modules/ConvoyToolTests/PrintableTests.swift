import Foundation
import Testing

@testable import ConvoyTool

@Suite(.serialized) struct PrintableTests {
    private let mark = Display.hasUnicode ? "…" : "~"

    @Test func `text is cut to a number of columns, including wide characters`() {
        #expect(Printable.cut("abc", to: 5) == "abc")
        #expect(Printable.cut("abcdefgh", to: 5) == "ab\(mark)gh")
        for columns in 0..<20 {
            for text in ["日本語のファイル名です.txt", "a\u{301}b日👨‍👩‍👧c🇩🇪d❤️e👍🏽f.tar.gz", "....................."] {
                let width = Printable.width(Printable.cut(text, to: columns))
                #expect(width <= columns && width >= columns - 1, "\(columns) of \(text)")
            }
        }
    }

    @Test(arguments: [
        ("a-long-name-of-a-file.txt", "a-long\u{7}le.txt"), ("a-long-name-of-a-file.tar.gz", "a-long\u{7}tar.gz"),
        ("a-long-name.with a blank", "a-long\u{7} blank"), ("a.verylongextension", "a.very\u{7}ension"),
        (".averylonghiddenname", ".avery\u{7}enname"),
    ])
    func `a shortened name keeps its extension`(_ name: String, _ cut: String) {
        #expect(Printable.cut(name, to: 13) == cut.replacing("\u{7}", with: mark))
    }

    @Test func `text is converted to ASCII character by character`() {
        #expect(Printable.ascii("aé日👨‍👩‍👧e\u{301}\r\n.") == "a????\r\n.")
    }

    @Test(arguments: [
        ("abc", 3), ("日本", 4), ("✅", 2), ("☕", 2), ("😀", 2), ("é", 1), ("e\u{301}", 1), ("\u{301}", 0), ("한", 2), ("👨‍👩‍👧", 2),
        ("ㅎ", 2), ("…", 1), ("━", 1), ("a\u{200B}b", 2), ("ﾊ", 1), ("", 0),
    ])
    func `the computed width of text matches the terminal`(_ text: String, _ columns: Int) {
        #expect(Printable.width(text) == columns)
    }

    @Test func `amounts are formatted in readable units`() {
        #expect(Amounts.bytes(0) == "0 B")
        #expect(Amounts.bytes(999) == "999 B")
        #expect(Amounts.bytes(1000) == "1.0 kB")
        #expect(Amounts.bytes(999_960) == "1.0 MB")
        #expect(Amounts.bytes(.max) == "9.2 EB")
        #expect(Amounts.seconds(0.0341) == "0.034 s")
        #expect(Amounts.seconds(59.999) == "1:00")
        #expect(Amounts.clock(3723) == "1:02:03")
        #expect(Amounts.clock(.infinity) == "--:--")
        #expect(
            [0, 1500, .infinity, 1e300, -1, .nan].map(Amounts.speed)
                == ["0 B/s", "1.5 kB/s", "9.0 EB/s", "9.0 EB/s", "0 B/s", "0 B/s"])
    }

    @Test func `a JSON string survives a round trip`() throws {
        let text = "a\"b\\c\n\u{1B}[2J\u{202E}\u{0}é😀\u{E0041}"
        var line = JSONLine()
        line.add("k", text)
        #expect(!line.text.contains("\u{1B}"))
        #expect(try JSONDecoder().decode([String: String].self, from: Data(line.text.utf8)) == ["k": text])
    }
}
