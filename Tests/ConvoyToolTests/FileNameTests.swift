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
