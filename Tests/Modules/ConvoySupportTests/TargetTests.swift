import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySupport

struct TargetTests {
    @Test(arguments: [
        (Spelling.loopback, "127.0.0.1"), (Spelling.localhost, "localhost"), (Spelling.loopback6, "[::1]"),
        (Spelling.mapped, "[::ffff:127.0.0.1]"), (Spelling.international, "xn--bcher-kva.example"),
    ])
    func `all spellings of a scheme, host and port are the same target`(
        hosts: [String], host: String
    ) throws {
        #expect(hosts.count >= 10 && Spelling.http.count >= 10 && Spelling.https.count >= 10)
        for (schemes, isSecure) in [(Spelling.http, false), (Spelling.https, true)] {
            let target = try #require(Target("\(isSecure ? "https" : "http")://\(host):8080/"))
            #expect(target.isSecure == isSecure && target.host == host && target.port == 8080 && target.zone == nil)
            #expect(target.authority == "\(host):8080" && target.place == target.authority)
            for text in Spelling.urls(schemes, hosts, port: 8080, "/a?b#c") {
                let address = try #require(HTTPAddress(text), "\(text)")
                #expect(address.target == target, "\(text)")
                #expect(address.text == "\(target)/a?b#c" && !address.hasUserInfo, "\(text)")
                // A program has this URL after Foundation has parsed the text.
                if let url = URL(string: text) { #expect(Target(url) == target, "\(text): \(url)") }
                if let url = URLReference.url(text) { #expect(Target(url) == target, "\(text): \(url)") }
            }
        }
    }

    @Test(arguments: [
        ("http://h", "http://h"), ("http://h:80", "http://h"), ("http://h:", "http://h"), ("http://h:0080", "http://h"),
        ("https://h:443", "https://h"), ("https://h:80", "https://h:80"), ("http://h:443", "http://h:443"),
        ("http://h:0", "http://h:0"), ("http://h:000000000000000000000065535", "http://h:65535"),
        ("https://[::1]:443", "https://[::1]"), ("https://[::1]:", "https://[::1]"), ("http://h.", "http://h."),
        ("http://H:8080", "http://h:8080"), ("http://a_b", "http://a_b"), ("http://1.2.3.4.5", "http://1.2.3.4.5"),
        ("http://1e100.net", "http://1e100.net"), ("http://256.0.0.1", "http://256.0.0.1"),
        ("http://[fe80::1%25eth0]:81", "http://[fe80::1%25eth0]:81"), ("http://[FE80::1%eth0]", "http://[fe80::1%25eth0]"),
        ("http://a..b", "http://a..b"), ("http://-", "http://-"), ("http://08.1", "http://08.1"), ("http://u@h", "http://h"),
        ("http://u:80@h:81", "http://h:81"), ("http://u@v@h", "http://h"), ("http://@h", "http://h"),
    ])
    func `a target has the host as sent, and a port`(text: String, expected: String) throws {
        for rest in ["", "/", "/x?y#z"] {
            let address = try #require(HTTPAddress(text + rest))
            #expect(address.target.description == expected)
            #expect(HTTPAddress(address.text)?.target == address.target)
            #expect(address.hasUserInfo == text.contains("@"))
        }
        #expect(HTTPAddress("\(text)?x")?.text == "\(expected)/?x" && HTTPAddress("\(text)#x")?.text == "\(expected)/#x")
    }

    @Test(arguments: [
        ("http://h/", "http://h./"), ("http://h/", "https://h/"), ("http://h:443/", "https://h/"),
        ("http://h/", "http://h:81/"),
        ("http://h/", "http://a.h/"), ("http://127.0.0.1/", "http://localhost/"), ("http://127.0.0.1/", "http://[::1]/"),
        ("http://127.0.0.1/", "http://[::ffff:127.0.0.1]/"), ("http://[fe80::1]/", "http://[fe80::1%25a]/"),
        ("http://[fe80::1%25b]/", "http://[fe80::1%25a]/"), ("http://xn--fa-hia.de/", "http://fass.de/"),
    ])
    func `a URL that may lead to another server has another target`(one: String, other: String) throws {
        #expect(try #require(Target(one)) != #require(Target(other)))
        #expect(!Target.isSame(URL(string: one), URL(string: other)))
    }

    @Test(arguments: [
        "", "h", "//h/", "/h", "http", "http:", "http:/h", "http:h", "http://", "http:///", "http:///x", "http://?h",
        "http://#h", "http:\\\\h\\", "http:/\\h/", "http://h\\@evil/", "http://evil\\.h/", "http://h\t/", "http://\th/",
        "ht\ttp://h/", " http://h/", "http ://h/", "http://h /", "http://h\r\n/", "http://h\0/", "http://h%00/",
        "http://h%2F/",
        "http://h%40evil/", "http://h%5Cevil/", "http://h%09/", "http://h%/", "http://h%zz/", "http://h%25/", "http://a b/",
        "http://h|i/", "http://<h>/", "http://h:x/", "http://h:-1/", "http://h:+80/", "http://h:8 0/", "http://h:80:80/",
        "http://h:65536/", "http://h:99999999999999999999/", "http://h:%38%30/", "http://h:８０/", "http://:80/",
        "http://u@/", "http://u@:80/", "http://[::1/", "http://::1/", "http://[::1]x/", "http://[1.2.3.4]/", "http://[]/",
        "http://[::1%]/", "http://[::1%25]/", "http://[::1%25a/b]/", "http://[::g]/", "http://%5B::1%5D/", "http://ａ／b/",
        "http://\u{301}/", "http://\u{AD}/", "http://a\u{202E}b@/", "httpss://h/", "https:://h/", "xhttp://h/",
        "http\u{301}://h/", "ｈttp://h/", "file:///h", "ftp://h/", "ws://h/", "javascript://h/", "data:,http://h/",
        "http+unix://h/", "view-source:http://h/",
    ])
    func `an ambiguous or non-HTTP URL has no target`(text: String) {
        #expect(Target(text) == nil)
        #expect(HTTPAddress(text) == nil)
    }

    @Test func `an invalid URL is reported with its problem`() {
        func problem(_ text: String) -> HTTPAddress.Problem? {
            do throws(HTTPAddress.Problem) {
                _ = try HTTPAddress.reading(text)
                return nil
            } catch { return error }
        }
        #expect(problem("//h/") == .noScheme && problem("FTP://h/") == .otherScheme("ftp"))
        #expect(problem("HTTP:h") == .noHost && problem("http://h:x") == .noHost && problem("HTTP://h") == nil)
    }

    @Test(arguments: [
        ("http://a.example/x", "https://a.example/x"), ("http://a.example", "https://a.example"),
        ("http://a.example:80/x", "https://a.example/x"), ("http://a.example:8080/", "https://a.example:8080/"),
        ("http://a.example:443/", "https://a.example/"), ("http://a.example?q=:80", "https://a.example/?q=:80"),
        ("http://[::1]:80/", "https://[::1]/"), ("http://[::80]/", "https://[::80]/"),
        ("HTTP://a.example:/", "https://a.example/"), ("hTTps://A.example:80/", "https://a.example:80/"),
        ("http://[fe80::1%25a]/#http://", "https://[fe80::1%25a]/#http://"), ("http://a/@b", "https://a/@b"),
    ])
    func `an upgrade to TLS changes port 80 to 443 and keeps others`(text: String, expected: String) throws {
        let secured = try #require(HTTPAddress(text)).secured
        #expect(secured.text == expected)
        #expect(secured.target == Target(expected) && secured.target.isSecure)
    }

    @Test func `a WebSocket URL has the target of its HTTP URL`() throws {
        for (text, same) in [("ws://H/", "http://h/"), ("WSS://h:443/", "https://h/"), ("https://h/", "https://h/")] {
            #expect(Target(ofWebSocketOrHTTP: try #require(URL(string: text))) == Target(same))
        }
        #expect(Target(ofWebSocketOrHTTP: try #require(URL(string: "ftp://h/"))) == nil)
    }

    @Test func `the fast parser agrees with the complete one`() throws {
        let pieces = [
            "a", "b", "z", "0", "1", "9", "127", "255", "256", "00", "0x1", ".", ".", "-", "_", ":", ":80", ":443", ":8080",
            ":0", ":65535", ":65536", "/", "/", "?", "#", "@", "%41", "A", "é", "[::1]", "\\", "\u{301}",
        ]
        var random = SplitMix64.printingSeed()
        var plain = 0
        for _ in 0..<20_000 {
            let rest = (0..<Int.random(in: 0...6, using: &random))
                .map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            for scheme in ["http", "https"] {
                var text = "\(scheme)://\(rest)"
                let isPlain = text.withUTF8 { SimpleURLAuthority($0) != nil }
                // This never uses the fast path.
                let thorough = HTTPAddress(scheme.uppercased() + "://\(rest)")
                let address = HTTPAddress(text)
                #expect(address?.target == thorough?.target, "\(text)")
                if isPlain { plain += 1 }
                guard let address else { continue }
                #expect(Target(text) == address.target)
                // The result is the same regardless of the parser.
                #expect(HTTPAddress(address.text) == HTTPAddress(target: address.target, text: address.text), "\(text)")
                let url = try #require(URL(string: thorough?.text ?? ""))
                #expect(url.scheme == scheme && (url.port ?? (scheme == "https" ? 443 : 80)) == address.target.port)
                #expect(url.host == address.target.bareHost, "\(text)")
            }
        }
        #expect(plain > 1_000)
    }
}
