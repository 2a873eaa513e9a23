import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCookies

/// The rules for individual fields.
@Suite struct CookieRuleTests {
    /// Returns the cookie that a field sets, or the reason why it is rejected.
    private func result(
        _ field: String, _ url: String = "https://www.example.co.uk/a/b"
    ) throws -> Result<Cookie, CookieRefusal> {
        let store = CookieStore()
        let place = try place(url)
        if let refusal = store.result(of: Array(field.utf8), from: place, { _ in true }) { return .failure(refusal) }
        return .success(try #require(store.cookies.first))
    }

    private func refusal(_ field: String, _ url: String = "https://www.example.co.uk/a/b") throws -> CookieRefusal? {
        if case .failure(let refusal) = try result(field, url) { return refusal }
        return nil
    }

    @Test("a public suffix has no cookies, except for a host that is itself a public suffix")
    func publicSuffix() throws {
        #expect(try refusal("a=b; Domain=co.uk") == .publicSuffix)
        #expect(try refusal("a=b; Domain=.uk") == .publicSuffix)
        #expect(try refusal("a=b; Domain=github.io", "https://me.github.io/") == .publicSuffix)
        for (host, domain) in [("github.io", "github.io"), ("localhost", "localhost"), ("printer", "printer")] {
            let cookie = try result("a=b; Domain=\(domain)", "https://\(host)/").get()
            #expect(cookie.isHostOnly)
            #expect(cookie.domain == host)
        }
        #expect(try !result("a=b; Domain=example.co.uk").get().isHostOnly)
        #expect(try refusal("a=b; Domain=xn--85x722f.com.cn", "https://食狮.com.cn/") == nil)
        #expect(try refusal("a=b; Domain=com.cn", "https://食狮.com.cn/") == .publicSuffix)
    }

    @Test("a domain that does not contain the host is rejected")
    func foreignDomain() throws {
        let domains = [
            "other.example", "ww.example.co.uk", "xample.co.uk", "a.www.example.co.uk", "www.example.co.uk.", "é",
        ]
        for domain in domains { #expect(try refusal("a=b; Domain=\(domain)") == .foreignDomain, "\(domain)") }
    }

    @Test("an address has cookies only for itself", arguments: ["127.0.0.1", "[::1]", "[2001:db8::1]"])
    func addresses(_ host: String) throws {
        let name = host.trimmingCharacters(in: ["[", "]"])
        let cookie = try result("a=b; Domain=\(name)", "http://\(host):8080/").get()
        #expect(cookie.isHostOnly)
        #expect(cookie.domain == name)
        #expect(try refusal("a=b; Domain=0.0.1", "http://127.0.0.1/") == .foreignDomain)
    }

    @Test("spellings of the same host share their cookies")
    func spellings() throws {
        let store = CookieStore()
        store.setCookies(["a=b"], from: try ConvoyCookiesTests.url("http://WWW.Example.org./"))
        for url in ["http://www.example.org/", "http://www.EXAMPLE.org./x", "https://www.example.org:8443/"] {
            #expect(store.cookies(for: try ConvoyCookiesTests.url(url)).count == 1, "\(url)")
        }
        #expect(HostName.normalized("Bücher.example") == "xn--bcher-kva.example")
        #expect(HostName.normalized("bu\u{308}cher.example") == "xn--bcher-kva.example")
        #expect(HostName.normalized("食狮。公司.cn") == "xn--85x722f.xn--55qx5d.cn")
        #expect(HostName.normalized("ليهمابتكلموشعربي؟") == "xn--egbpdaj6bu4bxfgehfvwxn")
        for bad in ["", ".", "a..b", "a b", "a..", "a/b", "a\u{0}b", String(repeating: "é", count: 64)] {
            #expect(HostName.normalized(bad) == nil, "\(bad.debugDescription)")
        }
    }

    @Test("Secure cookies are accepted only over TLS, even on loopback")
    func secure() throws {
        for url in ["http://www.example.co.uk/", "ws://www.example.co.uk/", "http://localhost/", "http://127.0.0.1/"] {
            #expect(try refusal("a=b; Secure", url) == .secureFromInsecure, "\(url)")
        }
        #expect(try result("a=b; Secure", "wss://localhost/").get().isSecure)
    }

    @Test("the requirements of name prefixes apply regardless of case")
    func prefixes() throws {
        for name in ["__Secure-a", "__SECURE-a", "__secure-"] {
            #expect(try refusal("\(name)=b") == .prefix, "\(name)")
            #expect(try refusal("\(name)=b; Secure") == nil, "\(name)")
        }
        for name in ["__Host-a", "__host-a", "__HOST-"] {
            #expect(try refusal("\(name)=b; Secure; Path=/") == nil, "\(name)")
            let broken = ["Secure", "Path=/", "Secure; Path=/x", "Secure; Path=/; Domain=www.example.co.uk", "Secure; Path"]
            for attributes in broken { #expect(try refusal("\(name)=b; \(attributes)") == .prefix, "\(attributes)") }
        }
        // The Path attribute is missing, even though it would be "/".
        #expect(try refusal("__Host-a=b; Secure", "https://www.example.co.uk/") == .prefix)
        for value in ["__Host-a", "=__Host-a=b", "=__secure-a", "  = __SeCuRe-a"] {
            #expect(try refusal("\(value); Secure; Path=/") == .prefix, "\(value)")
        }
        #expect(try refusal("x__Host-a=b") == nil)
    }

    @Test("SameSite=None requires Secure")
    func sameSiteNone() throws {
        #expect(try refusal("a=b; SameSite=none") == .sameSiteNoneWithoutSecure)
        #expect(try result("a=b; SameSite=NONE; Secure").get().sameSite == .none)
        #expect(try result("a=b; SameSite=None; SameSite=Strict").get().sameSite == .strict)
        #expect(try result("a=b; SameSite=lax").get().sameSite == .lax)
        #expect(try result("a=b; SameSite=what").get().sameSite == .unspecified)
    }

    @Test("a name and a value are limited to 4096 bytes in total, and an attribute to 1024")
    func sizes() throws {
        #expect(try refusal("abc=" + String(repeating: "x", count: 4093)) == nil)
        #expect(try refusal("abc=" + String(repeating: "x", count: 4094)) == .tooLarge)
        #expect(try refusal(String(repeating: "é", count: 2049)) == .tooLarge)
        let path = "/" + String(repeating: "x", count: 1023)
        #expect(try result("a=b; Path=\(path)").get().path == path)
        #expect(try result("a=b; Path=\(path)x").get().path == "/a")
        #expect(try result("a=b; Path=/y; Path=\(path)x").get().path == "/y")
        #expect(try refusal("=") == .empty)
        #expect(try refusal("") == .empty)
    }

    @Test("a field with a control character other than the tab is rejected, regardless of its position")
    func controls() throws {
        for byte in (0..<0x20).map(UInt8.init) + [0x7F] {
            let text = String(UnicodeScalar(byte))
            for field in ["a\(text)c=b", "a=b\(text)c", "a=b; Path=/\(text)c", "a=b; x\(text)y"] {
                #expect(try refusal(field) == (byte == 9 ? nil : .invalidCharacter), "\(field.debugDescription)")
            }
        }
    }

    @Test(
        "Max-Age takes precedence over Expires, and the lifetime is limited to 400 days",
        arguments: [
            ("Max-Age=60", 60), ("Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:10 GMT", 60),
            ("Max-Age=99999999999999999999999999", 400 * 86_400), ("Max-Age=34560001", 400 * 86_400),
            ("Max-Age=5; Max-Age=x", 5), ("Max-Age=5; Max-Age=7", 7), ("Max-Age=+5", nil), ("Max-Age=1.5", nil),
            ("Max-Age=", nil), ("Max-Age=-", nil), ("Max-Age=0", 0), ("Max-Age=-99999999999999999999", 0),
            ("Expires=Fri, 31 Dec 9999 23:59:59 GMT", 400 * 86_400), ("Expires=x", nil),
            ("Expires=Sun, 01 Jan 1601 00:00:00 GMT", 0), ("Expires=x; Max-Age=3", 3),
        ] as [(String, Int64?)])
    func expiry(_ attributes: String, _ seconds: Int64?) throws {
        let now = 1_800_000_000 * CookieTime.second
        let place = CookiePlace(host: "example.org", path: "/", isSecure: false)
        let cookie = try CookieRules.cookie(SetCookieField("a=b; \(attributes)".utf8), from: place, at: now)
        #expect(cookie.expiryTime == seconds.map { $0 == 0 ? 0 : now + $0 * CookieTime.second })
    }

    @Test("paths match only at slashes")
    func paths() {
        let matching = [
            ("/", "/"), ("/a", "/"), ("/a", "/a"), ("/a/", "/a"), ("/a/b", "/a"), ("/a/b", "/a/"), ("/a/", "/a/"),
        ]
        for (request, cookie) in matching { #expect(CookiePath.matches(request, cookie), "\(request) \(cookie)") }
        let others = [("/", "/a"), ("/ab", "/a"), ("/a", "/a/"), ("/A", "/a"), ("/a", "/%61")]
        for (request, cookie) in others { #expect(!CookiePath.matches(request, cookie), "\(request) \(cookie)") }
        let defaults = [("/", "/"), ("/a", "/"), ("/a/", "/a"), ("/a/b", "/a"), ("", "/"), ("a/b", "/"), ("//", "/")]
        for (path, expected) in defaults { #expect(CookiePath.defaultPath(of: path) == expected, "\(path)") }
    }

    @Test(
        "Strict and Lax cookies are not sent with requests caused by another site",
        arguments: [
            (nil, true, 4), (nil, false, 4), ("https://other.example.org/x", false, 4), ("https://example.org:1/", true, 4),
            ("https://example.net/", true, 3), ("https://example.net/", false, 1), ("http://example.org/", true, 3),
            ("about:blank", false, 1), ("file:///x", true, 3), ("https://org/", false, 1),
        ] as [(String?, Bool, Int)])
    func sameSite(_ site: String?, _ isSafe: Bool, _ count: Int) throws {
        let store = CookieStore()
        let url = try ConvoyCookiesTests.url("https://www.example.org/")
        store.setCookies(["a=1; SameSite=None; Secure", "b=2; SameSite=Lax", "c=3; SameSite=Strict", "d=4"], from: url)
        let request = CookieRequest(
            place: try place("https://www.example.org/"), site: site.flatMap { URL(string: $0) }, isSafeMethod: isSafe)
        let sent = store.cookies(for: request).map(\.name)
        #expect(sent == [4: ["a", "b", "c", "d"], 3: ["a", "b", "d"], 1: ["a"]][count])
    }

    @Test("random bytes are stored or rejected with a typed error, and stored cookies are sent back unchanged")
    func randomFields() throws {
        var random = SplitMix64.printingSeed()
        let pieces = [
            "=", ";", " ", "\t", ",", "\"", "Domain", "Path", "Max-Age", "Expires", "Secure", "SameSite", "None", "__Host-",
            "example.org", ".", "/", "99999999999999999999", "-", "a", "é", "\u{7F}", ":", "Jan", "12:34:56", "1601",
        ].map { Array($0.utf8) }
        var kept = 0
        for _ in 0..<4000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0...14, using: &random) {
                if Int.random(in: 0..<8, using: &random) == 0 {
                    bytes.append(UInt8.random(in: 0...255, using: &random))
                } else {
                    bytes += pieces[Int.random(in: 0..<pieces.count, using: &random)]
                }
            }
            let store = CookieStore()
            let place = CookiePlace(host: "www.example.org", path: "/", isSecure: true)
            let refusal = store.result(of: bytes, from: place) { _ in true }
            guard refusal == nil, let cookie = store.cookies.first else { continue }
            let request = CookieRequest(
                place: CookiePlace(host: "www.example.org", path: cookie.path, isSecure: true), site: nil, isSafeMethod: true
            )
            let sent = try #require(store.fieldBytes(for: request))
            let pair = bytes.prefix { $0 != UInt8(ascii: ";") }
            #expect(sent.allSatisfy { $0 != UInt8(ascii: ";") && ($0 >= 0x20 || $0 == 9) && $0 != 0x7F })
            #expect(pair.count >= cookie.nameBytes.count + cookie.valueBytes.count)
            // The same cookie can be set manually, and parsed from the field that was sent.
            let other = CookieStore()
            #expect(other.setCookie(cookie))
            #expect(other.cookies == [cookie])
            kept += 1
        }
        #expect(kept > 100)
    }

    @Test("a value that is not UTF-8 is sent back to its server byte for byte")
    func bytes() throws {
        let store = CookieStore()
        let place = CookiePlace(host: "example.org", path: "", isSecure: false)
        let url = try ConvoyCookiesTests.url("http://example.org/")
        store.take([[0x61, 0x3D, 0xE9, 0xFF]], from: place, url: url)
        let request = CookieRequest(place: place, site: nil, isSafeMethod: true)
        #expect(store.fieldBytes(for: request) == [0x61, 0x3D, 0xE9, 0xFF])
        #expect(store.field(for: request) == "a=éÿ")
    }
}
