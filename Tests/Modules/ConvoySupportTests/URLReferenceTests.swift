import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySupport

struct URLReferenceTests {
    /// RFC 3986, sections 5.4.1 and 5.4.2, relative to `http://a/b/c/d;p?q`. Foundation on Linux rejects the empty
    /// reference, and removes dot segments only from relative references.
    static let examples = [
        ("g:h", "g:h"), ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"), ("//g", "http://g"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"), ("g#s", "http://a/b/c/g#s"), ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"), ("g;x", "http://a/b/c/g;x"), ("g;x?y#s", "http://a/b/c/g;x?y#s"),
        ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"),
        ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../", "http://a/"),
        ("../../g", "http://a/g"),
        // Abnormal references.
        ("../../../g", "http://a/g"), ("../../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."), (".g", "http://a/b/c/.g"), ("g..", "http://a/b/c/g.."), ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"), ("./g/.", "http://a/b/c/g/"), ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"), ("g;x=1/./y", "http://a/b/c/g;x=1/y"), ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/./x", "http://a/b/c/g?y/./x"), ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("g#s/./x", "http://a/b/c/g#s/./x"), ("g#s/../x", "http://a/b/c/g#s/../x"), ("http:g", "http:g"),
    ]

    @Test(arguments: examples)
    func `the examples of RFC 3986 are resolved as specified`(reference: String, target: String) {
        #expect(URLReference.text(reference, relativeTo: "http://a/b/c/d;p?q") == target)
        guard target != "http:g" else {
            // In strict mode, the result has no host to send a request to.
            #expect(URLReference.url(reference, relativeTo: URL(string: "http://a/b/c/d;p?q")) == nil)
            return
        }
        #expect(URLReference.url(reference, relativeTo: URL(string: "http://a/b/c/d;p?q"))?.absoluteString == target)
    }

    @Test func `the table contains all 42 examples of the RFC`() { #expect(Self.examples.count == 42) }

    @Test(arguments: [
        ("http://h", "x", "http://h/x"), ("http://h", "?q", "http://h?q"), ("http://h?z", "x", "http://h/x"),
        ("http://h/a/b", "..//x", "http://h//x"), ("http://h/a", "../..//a/./b", "http://h//a/b"),
        ("http://h/a", "http://k/a/../b", "http://k/b"), ("http://h/a", "http://k/./b/..//c", "http://k//c"),
        ("http://h/a", "//k/a/../b", "http://k/b"), ("http://h/a//b", "../x", "http://h/a/x"),
        ("http://h/a/b?c", "?", "http://h/a/b?"), ("http://h/a/b?c#d", "", "http://h/a/b?c"),
        ("http://h/a/../b", "", "http://h/a/../b"), ("http://h/a/../b/", "c", "http://h/b/c"),
        ("http://u:p@h:8080/a", "b", "http://u:p@h:8080/b"), ("http://u:p@h:8080/a", "//k", "http://k"),
        ("http://h/%7Ea/", "b", "http://h/%7Ea/b"), ("x:a/b", "../c", "x:/c"), ("x:./b", "", "x:./b"),
    ])
    func `other bases are resolved by the same rules`(base: String, reference: String, target: String) {
        #expect(URLReference.text(reference, relativeTo: base) == target)
    }

    @Test(arguments: ["", "x", "/x", "//h/x", "?q", "#f", "1a:b", ":b", "é:x"])
    func `only an absolute reference has a URL without a base`(reference: String) {
        #expect(URLReference.url(reference) == nil)
        #expect(URLReference.url(reference, relativeTo: URL(string: "relative/x")) == nil)
    }

    @Test(arguments: [
        ("http://bücher.example/ä%20 b", "http://xn--bcher-kva.example/%C3%A4%20%20b"),
        ("http://BÜCHER.example:80/", "http://xn--bcher-kva.example:80/"),
        ("http://b%C3%BCcher.example/", "http://xn--bcher-kva.example/"), ("http://a%2Eb/", "http://a.b/"),
        ("http://日本。jp/", "http://xn--wgv71a.jp/"), ("http://faß.de/", "http://xn--fa-hia.de/"),
        ("http://ü:p@ü.de:1/", "http://%C3%BC:p@xn--tda.de:1/"), ("http://a_b.c-d/", "http://a_b.c-d/"),
        ("http://[::1]:80/a b", "http://[::1]:80/a%20b"), ("http://[::ffff:1.2.3.4]/", "http://[::ffff:1.2.3.4]/"),
        ("http://[fe80::1%25eth0]/", "http://[fe80::1%25eth0]/"), ("http://[fe80::1%eth0]/", "http://[fe80::1%25eth0]/"),
        ("http://u:p w@h/", "http://u:p%20w@h/"), ("http://u%20:p@h/", "http://u%20:p@h/"),
        ("http://u@v@h/", "http://u%40v@h/"), ("http://h:/x", "http://h:/x"), ("http://h:0080/", "http://h:0080/"),
        ("HTTP://H/", "HTTP://H/"), ("http://1.2.3.4", "http://1.2.3.4"),
        ("http://0x7f.1/", "http://127.0.0.1/"), ("http://2130706433:80/", "http://127.0.0.1:80/"),
        ("http://0177.0.0.1/", "http://127.0.0.1/"), ("http://１２７.1/", "http://127.0.0.1/"),
        ("http://1.2.3.4.5/", "http://1.2.3.4.5/"), ("http://1.2.3.256/", "http://1.2.3.256/"), ("http://1a/", "http://1a/"),
    ])
    func `a host is converted to the form in which it is sent`(reference: String, target: String) {
        #expect(URLReference.url(reference)?.absoluteString == target)
    }

    @Test(arguments: [
        "http:\\\\h/", "http:/\\h/", "http:h", "http:/h", "http:", "http://", "http:///h/", "http:////h/", "http://?h",
        "http://:80/", "http://u@/", "http://u@:80/", "http://h:65536/", "http://h:99999999999999999999/", "http://h:-1/",
        "http://h:8a/", "http://h:٨/", "http://::1/", "http://[::1/", "http://[::1]x/", "http://[::1]80/", "http://[]/",
        "http://[::g]/", "http://[1.2.3.4]/", "http://[v1.x]/", "http://[::1%25]/", "http://[::1%25a b]/", "http://[::1%]/",
        "http://a b/", "http://a\tb/", "http://a\nb/", "http://a\u{0}b/", "http://a\u{7F}b/", "http://a\\b/",
        "http://good\\@evil/", "http://good\t@evil/", "http://good\n@evil/", "http://a%00b/", "http://a%2fb/",
        "http://a%5cb/",
        "http://a%40b/", "http://a%3A80/", "http://a%20b/", "http://a%25b/", "http://a%/", "http://a%FFb/", "http://a|b/",
        "http://a^b/", "http://a`b/", "http://a{b/", "http://a\"b/", "http://a<b/", "http://a[b/", "http://a]b/",
        "http://％41.com/", "http://a／evil.com/", "http://a＠b.com/", "http://a：80/", "http://a＃b/", "http://a℀b/",
        "http://⒈.com/", "http:/.//evil/", "http:a/..//evil/", "https:/..//evil/",
    ])
    func `an ambiguous authority has no URL`(reference: String) {
        #expect(URLReference.url(reference) == nil)
    }

    @Test func `a path is not mistaken for an authority`() {
        #expect(URLReference.text("x:/.//h/", relativeTo: nil) == nil)
        #expect(URLReference.text("x:a/..//h/", relativeTo: nil) == nil)
        #expect(URLReference.text(".//h/", relativeTo: "x:/a") == nil)
    }

    @Test func `invalid UTF-8 is percent-encoded, except in a host`() {
        let base = URL(string: "http://h/")
        #expect(URLReference.url([0x61, 0xFF, 0x3F, 0xE9], relativeTo: base)?.absoluteString == "http://h/a%FF?%E9")
        #expect(URLReference.url(Array("http://b".utf8) + [0xFC] + Array("cher/".utf8)) == nil)
    }

    /// Returns random text that resembles a reference, and an unusual one.
    private static func randomReference(_ generator: inout some RandomNumberGenerator) -> String {
        let pieces = [
            "http:", "https:", "HTTP:", "x:", "//", "/", "/", "\\", "..", ".", "a", "B", "é", "日", "%", "%41", "%2e", "%2F",
            "%zz", "?", "#", "@", ":", "80", "[", "]", "[::1]", "evil.example", "a.b", " ", "\t", "\n", "\r", "\u{0}",
            "\u{7F}", "|", "^", "`", "{", "}", "\"", "<", ">", ";", "=", "&", "+", "*", "'", "😀", "．", "／", "＠",
        ]
        return (0..<Int.random(in: 0...9, using: &generator))
            .map { _ in pieces.randomElement(using: &generator) ?? "" }.joined()
    }

    @Test func `a reference without a host keeps the host of the base, and nothing is encoded twice`() throws {
        var generator = SplitMix64.printingSeed()
        let base = try #require(URL(string: "http://u@base.example:81/d/e?f"))
        for _ in 0..<20_000 {
            let reference = Self.randomReference(&generator)
            let name = reference.debugDescription
            guard let url = URLReference.url(reference, relativeTo: base) else { continue }
            let text = url.absoluteString
            #expect(text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"\\|^`{}\"<>".utf8.contains($0) }, "\(name): \(text)")
            #expect(URLReference.url(text)?.absoluteString == text, "\(name): \(text)")
            if !reference.hasPrefix("//"), !reference.contains("://") {
                #expect(url.scheme != "http" || url.host == "base.example" && url.port == 81, "\(name): \(text)")
            }
            // Foundation parses the resolved text unchanged.
            let parts = URLParts(Array(text.utf8)[...])
            #expect(
                Array((url.host(percentEncoded: true) ?? "").utf8)
                    == parts.authority.flatMap(URLAuthority.init)?.host.filter { $0 != 0x5B && $0 != 0x5D } ?? [],
                "\(name): \(text)")
        }
    }
}
