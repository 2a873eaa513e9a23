import ConvoyDownloads
import ConvoyTestSupport
import Foundation
import Testing

struct FileNameTests {
    /// Checks the requirements for every name.
    static func expectSafe(_ name: String, maximumLength: Int = FileName.maximumLength) {
        let scalars = Array(name.unicodeScalars)
        #expect(!scalars.isEmpty && name.utf8.count <= maximumLength, "\(name.debugDescription)")
        let isClean = scalars.allSatisfy {
            $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) && !(0x202A...0x202E).contains($0.value)
                && !(0x2066...0x2069).contains($0.value) && !"/\\<>:\"|?*".unicodeScalars.contains($0)
        }
        #expect(isClean, "\(name.debugDescription)")
        #expect(scalars.first.map { !".-~ ".unicodeScalars.contains($0) } == true, "\(name.debugDescription)")
        #expect(scalars.last.map { !". ".unicodeScalars.contains($0) } == true, "\(name.debugDescription)")
        #expect(FileName.safe(name, maximumLength: maximumLength).map { Array($0.utf8) } == Array(name.utf8))
    }

    @Test(arguments: [
        ("a.txt", "a.txt"), ("a b.txt", "a b.txt"), ("/etc/passwd", "passwd"), ("../../a", "a"), ("a/", "a"),
        ("..\\..\\a.exe", "a.exe"), ("C:\\dir\\a.exe", "a.exe"), ("C:a", "C_a"), ("a/..\\b", "b"), ("..a", "_a"),
        (".bashrc", "_bashrc"), ("...a...", "_a"), (" . a . ", "_a"), ("-rf", "_rf"), ("~root", "_root"), (".-a", "_a"),
        ("a\u{0}b\n\u{1B}\u{7F}\u{85}", "a_b____"), ("a\u{202E}gpj.exe", "a_gpj.exe"), ("a\u{200B}.txt", "a_.txt"),
        ("a<b>c:d\"e|f?g*h", "a_b_c_d_e_f_g_h"), ("a.", "a"), ("a. . ", "a"), ("a\u{A0}\u{3000}", "a"),
        ("CON", "_CON"), ("nul.tar.gz", "_nul.tar.gz"), ("Aux .txt", "_Aux .txt"), ("com1", "_com1"), ("COM¹", "_COM¹"),
        ("lpt9.x", "_lpt9.x"), ("conin$", "_conin$"), ("com10", "com10"), ("CONFIG", "CONFIG"), ("con/a", "a"),
        ("\u{301}", "_\u{301}"), (".\u{301}a", "_\u{301}a"), (" \u{301}", "_\u{301}"), ("\u{200D}", "_\u{200D}"),
        ("_", "_"), ("___", "___"), ("100%", "100%"), ("%2e%2e%2fa", "%2e%2e%2fa"), ("日本.txt", "日本.txt"),
        ("👩‍👩‍👧.png", "👩‍👩‍👧.png"), ("می‌خواهم", "می‌خواهم"),
        // These are the suffixes of the files beside a download.
        ("iso.convoypart", "iso_convoypart"), ("iso.ConvoyJournal. ", "iso_ConvoyJournal"), (".convoypart", "_convoypart"),
        ("iso.convoy\u{200D}part", "iso_convoy\u{200D}part"), ("iso.convoypart.zip", "iso.convoypart.zip"),
    ])
    func `any text is turned into a safe file name`(_ text: String, _ name: String) throws {
        let safe = try #require(FileName.safe(text))
        #expect(Array(safe.utf8) == Array(name.utf8), "\(safe.debugDescription)")
        Self.expectSafe(safe)
    }

    @Test func `invisible characters are replaced`() {
        for value: UInt32 in [0xAD, 0x180E, 0x200B] + (0x2060...0x2065) + (0x206A...0x206F) {
            guard let scalar = Unicode.Scalar(value) else { continue }
            #expect(FileName.safe("a\(Character(scalar))b") == "a_b", "U+\(String(value, radix: 16))")
        }
    }

    @Test(arguments: [
        "", ".", "..", "...", " ", " . ", "/", "//", "\\", "a/..", "a/ ", "\u{0}", "???", "\u{202E}", "\u{A0}.", ":.",
    ])
    func `text without usable characters yields nil`(_ text: String) {
        #expect(FileName.safe(text) == nil)
    }

    @Test func `long names are cut between characters, before the extension`() throws {
        let archive = try #require(FileName.safe(String(repeating: "é", count: 300) + ".tar.gz"))
        #expect(archive.utf8.count == 239 && archive.hasSuffix("é.tar.gz"))
        let family = try #require(FileName.safe(String(repeating: "👩‍👩‍👧‍👦", count: 100), maximumLength: 200))
        #expect(family.utf8.count == 200 && family.last == "👩‍👩‍👧‍👦")
        let extensionOnly = try #require(FileName.safe("a." + String(repeating: "x", count: 300)))
        #expect(extensionOnly.utf8.count == 239)
        let space = try #require(
            FileName.safe(String(repeating: "a", count: 238) + " b" + String(repeating: "c", count: 20)))
        #expect(space == String(repeating: "a", count: 238))
        #expect(try #require(FileName.safe(String(repeating: "a", count: 300), maximumLength: 0)).utf8.count == 100)
        #expect(FileName.maximumLength == 239)
    }

    @Test func `every generated name is safe`() {
        var random = SplitMix64.printingSeed()
        let pieces = [
            "a", "é", "e\u{301}", "\u{301}", ".", "..", "/", "\\", " ", "-", "~", "_", "con", "NUL", ".txt", ".tar.gz", ":",
            "\u{0}", "\u{202E}", "\u{200D}", "\u{200B}", "👩‍👧", "\u{FEFF}", "\u{85}", "\u{2028}", "\u{FFFD}",
            String(repeating: "x", count: 90), String(repeating: "\u{301}", count: 50),
        ]
        for _ in 0..<4000 {
            let text = (0..<Int.random(in: 0...12, using: &random))
                .map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            let limit = Int.random(in: 100...255, using: &random)
            if let name = FileName.safe(text, maximumLength: limit) { Self.expectSafe(name, maximumLength: limit) }
        }
    }

    @Test func `sanitizing takes time proportional to the length of the text`() {
        func time(_ count: Int) -> Int {
            leastThreadTime { _ = FileName.safe(String(repeating: "é\u{301}", count: count)) }
        }
        #expect(time(30_000) < time(3000) * 50)
    }

    @Test func `suffixes of up to 32 bytes are kept when a name is shortened`() {
        for (count, isKept) in [(32, true), (33, false)] {
            let suffix = "." + String(repeating: "s", count: count - 1)
            let name = FileName.shortened(String(repeating: "a", count: 200) + suffix, to: 100)
            #expect(name.utf8.count == 100 && name.hasSuffix(suffix) == isKept, "\(name)")
        }
    }
}
