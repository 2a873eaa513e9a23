import ConvoyTestSupport
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
        ("http://h/%2E%CC%81bashrc", "_\u{301}bashrc"), ("http://h/-%CC%81rf", "_\u{301}rf"),
        ("http://h/%20%CC%81", "_\u{301}"), ("http://h/%E2%80%8B", "_\u{200B}"),
    ])
    func `names are derived from the URL path and sanitized`(_ url: String, _ name: String) throws {
        #expect(FileNames.name(for: try #require(URL(string: url))) == name)
    }

    @Test func `the name of a plain URL is the name of the same URL with an encoded character`() throws {
        var random = SplitMix64.printingSeed()
        let pieces = [
            "a", "Z", "0", "_", ".", "-", "+", "~", "=", ",", "/", "?", "#", ".convoypart", ".CONVOYJOURNAL", ".txt",
        ]
        for _ in 0..<PropertyBudget.rounds(2_000) {
            let count = Int.random(in: 1...8, using: &random)
            let rest = (0..<count).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            let long = Int.random(in: 0..<20, using: &random) == 0 ? String(repeating: "x", count: 238) : ""
            let plain = try #require(URL(string: "http://h/a\(long)\(rest)"))
            let encoded = try #require(URL(string: "http://h/%61\(long)\(rest)"))
            #expect(FileNames.name(for: plain) == FileNames.name(for: encoded), "\(plain)")
        }
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

    @Test(arguments: ["", "a", "ab", ".a", "a."], ["", ".txt", ".tar.gz", "." + String(repeating: "x", count: 40)])
    func `a name of combining marks keeps its first letter and its suffix`(_ start: String, _ suffix: String) {
        for count in [0, 1, 100, 118, 119, 120, 300, 3000] {
            let name = FileNames.sanitised(start + String(repeating: "\u{301}", count: count) + suffix)
            let scalars = Array(name.unicodeScalars)
            #expect(name.utf8.count <= 240)
            #expect(scalars.first.map { !".-~/ ".unicodeScalars.contains($0) } == true, "\(scalars)")
            if suffix.utf8.count < 10, !start.isEmpty || count > 0 {
                #expect(Array(scalars.suffix(suffix.unicodeScalars.count)) == Array(suffix.unicodeScalars))
            }
            if count > 200, start == "a", suffix == ".txt" { #expect(name.utf8.count >= 239) }
            #expect(FileNames.sanitised(name) == name, "sanitizing the name again changed it")
        }
    }

    @Test func `a space before the cut is removed`() {
        let name = FileNames.sanitised(String(repeating: "a", count: 239) + " b" + String(repeating: "c", count: 20))
        #expect(name == String(repeating: "a", count: 239))
    }

    @Test func `naming many equal URLs takes linear time`() {
        func time(_ count: Int) -> Int {
            leastThreadTime {
                var names = FileNameAllocator()
                for _ in 0..<count { _ = names.take("name.txt") }
            }
        }
        // If each search started at the first number, ten times as many names would take a hundred times as long.
        #expect(time(5000) < time(500) * 50)
    }

    @Test func `names are unique, including those of partial files`() {
        var names = FileNameAllocator()
        #expect(
            ["a.txt", "a.txt", "a.txt", "b", "b", "a.txt.part", "c.part", "c"].map { names.take($0) }
                == ["a.txt", "a.1.txt", "a.2.txt", "b", "b.1", "a.txt.1.part", "c.part", "c.1"])
    }
}
