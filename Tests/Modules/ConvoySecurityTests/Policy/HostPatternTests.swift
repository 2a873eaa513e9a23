import ConvoySecurity
import Foundation
import Testing

/// Host patterns: the hosts they match, and invalid texts.
@Suite struct HostPatternTests {
    @Test(arguments: [
        ("api.example.com", ["api.example.com", "API.Example.COM", "api.example.com."]),
        ("API.example.com.", ["api.example.com", "api.example.com."]),
        ("*.example.com", ["a.example.com", "A.EXAMPLE.COM.", "a_b.example.com", "xn--bcher-kva.example.com"]),
        ("**.example.com", ["example.com", "a.example.com", "a.b.c.example.com.", "EXAMPLE.com"]),
        ("localhost", ["localhost", "LOCALHOST."]), ("xn--bcher-kva.de", ["XN--BCHER-KVA.de"]),
        ("127.0.0.1", ["127.0.0.1", "[127.0.0.1]"]),
        ("::1", ["::1", "[::1]", "0:0:0:0:0:0:0:1", "[0000::0001]"]), ("[FE80::1]", ["fe80::1", "[fe80::1%eth0]"]),
        // Hosts that no certificate can name must not evade the pattern.
        ("**.example.com", ["a b.example.com", "A!.Example.com.", "a..example.com"]),
    ])
    func `a pattern matches the hosts that it covers`(pattern: String, hosts: [String]) throws {
        let pattern = try HostPattern(pattern)
        for host in hosts { #expect(pattern.covers(host), "\(host)") }
    }

    @Test(arguments: [
        ("api.example.com", ["example.com", "a.api.example.com", "xapi.example.com", "api.example.com..", "", "."]),
        ("*.example.com", ["example.com", "a.b.example.com", "aexample.com"]),
        ("**.example.com", ["anexample.com", "example.com.evil.test", "com"]),
        ("127.0.0.1", ["127.0.0.2", "127.0.0.1.example.com", "127.0.0.1\0"]), ("::1", ["::2", "0.0.0.1", "::1\0"]),
        ("*.0.0.1", ["127.0.0.1"]), ("**.1", ["127.0.0.1"]),
        // The texts contain the Kelvin sign, whose lowercase form is k, and the long s.
        ("kiosk.example.com", ["\u{212A}iosk.example.com", "kio\u{17F}k.example.com"]),
    ])
    func `a pattern does not match other hosts`(pattern: String, hosts: [String]) throws {
        let pattern = try HostPattern(pattern)
        for host in hosts { #expect(!pattern.covers(host), "\(host)") }
    }

    @Test(arguments: [
        "", ".", "*", "**", "*.", "**.", "*.*.com", "a.*.com", "a*.example.com", "*a.example.com", "***.example.com",
        "**.*.example.com", "*.127.0.0.1", "**.[::1]", "a..b", ".example.com", "a b.com", "https://a.com", "a.com/",
        "a.com:443", "bücher.de", "\u{212A}.com", "127.0.0.1\0", "a\0.com", String(repeating: "a", count: 64),
        Array(repeating: "abcdefghi", count: 26).joined(separator: "."),
    ])
    func `an invalid pattern is an error`(text: String) {
        let error = #expect(throws: SecurityTextError.self) { try HostPattern(text) }
        #expect(error?.description.contains("Invalid host pattern") == true)
    }

    @Test(arguments: [
        ["Example.COM", "example.com", "example.com."], ["*.A.test", "*.a.test."], ["**.a.test", "**.A.TEST."],
        ["[::1]", "::1", "0:0::1", "::1%lo"],
    ])
    func `different spellings of a pattern are equal`(texts: [String]) throws {
        let patterns = try texts.map { try HostPattern($0) }
        #expect(Set(patterns).count == 1 && Set(patterns.map(\.description)).count == 1)
    }

    @Test func `a pattern is encoded as its text`() throws {
        for text in ["example.com", "*.example.com", "**.example.com", "127.0.0.1", "fe80::1"] {
            let pattern = try HostPattern(text)
            #expect(pattern.description == text)
            let coded = try JSONEncoder().encode([pattern])
            #expect(try JSONDecoder().decode([HostPattern].self, from: coded) == [pattern])
        }
        for json in [#"["*"]"#, "[1]", #"[""]"#] {
            #expect(throws: DecodingError.self) { try JSONDecoder().decode([HostPattern].self, from: Data(json.utf8)) }
        }
    }

    @Test(arguments: [
        ("a.b.example.com", "a.b.example.com"), ("c.b.example.com", "*.b.example.com"),
        ("b.example.com", "**.b.example.com"), ("d.c.b.example.com", "**.b.example.com"),
        ("x.example.com", "*.example.com"), ("example.com", "**.example.com"), ("x.y.example.com", "**.example.com"),
        ("other.com", "**.com"), ("other.org", ""), ("A.B.EXAMPLE.COM.", "a.b.example.com"),
    ])
    func `the most specific policy for a host applies`(host: String, pattern: String) throws {
        var policy = SecurityPolicy()
        let patterns = [
            "**.com", "**.example.com", "*.example.com", "**.b.example.com", "*.b.example.com", "a.b.example.com",
        ]
        for (number, pattern) in patterns.shuffled().enumerated() {
            var own = SecurityPolicy()
            own.pinsExpire = Date(timeIntervalSince1970: TimeInterval(number))
            own.certificateAuthorities = .file(URL(fileURLWithPath: "/\(pattern)"))
            try policy.setPolicy(own, forHosts: pattern)
        }
        let chosen = policy.policy(forHost: host).certificateAuthorities
        #expect(chosen == (pattern.isEmpty ? .system : .file(URL(fileURLWithPath: "/\(pattern)"))))
    }
}
