import Foundation
import Testing

@testable import ConvoyTool

@Suite(.serialized) struct FileNameTests {
    @Test(arguments: [
        ("http://h/a/b.txt", "b.txt"), ("http://h", "index.html"), ("http://h/", "index.html"),
        ("http://h/a/", "index.html"), ("http://h/a.txt?b=/c#/d", "a.txt"), ("http://h/a%20b", "a b"),
        ("http://h/%2Fetc%2Fpasswd", "_etc_passwd"), ("http://h/%2e%2e", "_."), ("http://h/.bashrc", "_bashrc"),
        ("http://h/-rf", "_rf"), ("http://h/~root", "_root"), ("http://h/a%00b%0Ac%1B", "a_b_c_"),
        ("http://h/%20%20", "_"), ("http://h/caf%C3%A9", "café"), ("http://h/%FF%FE", "\u{FFFD}\u{FFFD}"),
        ("http://h/a%E2%80%AEgpj.exe", "a_gpj.exe"), ("http://h/100%25", "100%"),
    ])
    func `names come from the path, and are safe`(_ url: String, _ name: String) throws {
        #expect(FileNames.name(for: try #require(URL(string: url))) == name)
    }

    @Test func `a long name is cut before its suffix, between characters`() {
        let name = FileNames.sanitised(String(repeating: "é", count: 300) + ".tar.gz")
        #expect(name.utf8.count <= 240)
        #expect(name.utf8.count >= 238)
        #expect(name.hasSuffix("é.tar.gz"))
        let suffix = FileNames.sanitised("a." + String(repeating: "x", count: 300))
        #expect(suffix.utf8.count == 240)
        let flags = FileNames.sanitised(String(repeating: "👩‍👩‍👧‍👦", count: 100))
        #expect(flags.utf8.count <= 240)
        #expect(flags.last == "👩‍👩‍👧‍👦")
    }

    @Test func `no two names are the same, partial files included`() {
        var names = FileNameAllocator()
        #expect(["a.txt", "a.txt", "a.txt", "b", "b", "a.txt.part", "c.part", "c"].map { names.take($0) }
            == ["a.txt", "a.1.txt", "a.2.txt", "b", "b.1", "a.txt.1.part", "c.part", "c.1"])
    }
}

@Suite(.serialized) struct PrintableTests {
    @Test func `a text is fitted into columns, wide characters included`() {
        #expect(Printable.fitted("abc", to: 5) == "abc  ")
        #expect(Printable.fitted("abcdefgh", to: 5) == "ab…gh" || Printable.fitted("abcdefgh", to: 5) == "ab~gh")
        for columns in 0..<20 {
            #expect(Printable.width(Printable.fitted("日本語のファイル名です.txt", to: columns)) == columns)
        }
    }

    @Test func `amounts are written as people read them`() {
        #expect(Amounts.bytes(0) == "0 B")
        #expect(Amounts.bytes(999) == "999 B")
        #expect(Amounts.bytes(1000) == "1.0 kB")
        #expect(Amounts.bytes(999_960) == "1.0 MB")
        #expect(Amounts.bytes(.max) == "9.2 EB")
        #expect(Amounts.seconds(0.0341) == "0.034 s")
        #expect(Amounts.seconds(59.999) == "1:00")
        #expect(Amounts.clock(3723) == "1:02:03")
        #expect(Amounts.clock(.infinity) == "--:--")
        #expect([0, 1500, .infinity, 1e300, -1, .nan].map(Amounts.speed)
            == ["0 B/s", "1.5 kB/s", "9.0 EB/s", "9.0 EB/s", "0 B/s", "0 B/s"])
    }

    @Test func `a string of JSON survives its way there and back`() throws {
        let text = "a\"b\\c\n\u{1B}[2J\u{202E}\u{0}é😀\u{E0041}"
        var line = JSONLine()
        line.add("k", text)
        #expect(!line.text.contains("\u{1B}"))
        #expect(try JSONDecoder().decode([String: String].self, from: Data(line.text.utf8)) == ["k": text])
    }
}

@Suite(.serialized) struct DependencyCycleTests {
    @Test func `a cycle is named by its members, and a diamond is none`() {
        let diamond = ["a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []]
        #expect(DependencyCycle.find(in: diamond, order: ["a", "b", "c", "d"]) == nil)
        let ring = ["a": ["b"], "b": ["c"], "c": ["a"]]
        #expect(DependencyCycle.find(in: ring, order: ["a", "b", "c"]) == ["a", "b", "c"])
        #expect(DependencyCycle.find(in: ["a": ["b"], "b": ["b"]], order: ["a", "b"]) == ["b"])
        let chain = Dictionary(uniqueKeysWithValues: (0..<100_000).map { ("\($0)", ["\($0 + 1)"]) })
        #expect(DependencyCycle.find(in: chain, order: ["0"]) == nil)
    }
}
