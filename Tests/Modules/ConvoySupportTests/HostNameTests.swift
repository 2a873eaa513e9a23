import Foundation
import Testing

@testable import ConvoySupport

@Suite struct HostNameTests {
    @Test(arguments: [
        ("Example.COM", "example.com"), ("example.com.", "example.com"), ("a_b.example", "a_b.example"),
        ("Bücher.example", "xn--bcher-kva.example"), ("bu\u{308}cher.example.", "xn--bcher-kva.example"),
        ("食狮。公司.cn", "xn--85x722f.xn--55qx5d.cn"), ("localhost", "localhost"),
    ])
    func `all spellings of a name are equal`(spelling: String, name: String) {
        #expect(HostName.normalized(spelling) == name)
        let isASCII = spelling.utf8.allSatisfy { $0 < 0x80 }
        #expect(HostName(spelling)?.kind == (isASCII ? .name(name) : nil))
        #expect((HostName.spelling(of: spelling) == name) == isASCII)
    }

    @Test(
        arguments: [
            ("127.0.0.1", [127, 0, 0, 1]), ("127.0.0.1.", [127, 0, 0, 1]),
            ("[::1]", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            ("0:0::1%lo", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ] as [(String, [UInt8])])
    func `all spellings of an address are equal`(spelling: String, bytes: [UInt8]) {
        #expect(HostName(spelling)?.kind == .address(bytes))
    }

    @Test(arguments: [
        "", ".", "a..b", "a..", "a b", "a/b", "a:80", "a\0", "[", "a$b", String(repeating: "a", count: 64),
        String(repeating: "a.", count: 127) + "a", "é\0",
    ])
    func `an invalid host has no name`(host: String) {
        #expect(HostName(host) == nil)
    }

    @Test(arguments: [
        ("localhost", true), ("LOCALHOST.", true), ("a.localhost", true), ("a.b.Localhost", true),
        ("localhost.example", false), ("notlocalhost", false), ("127.0.0.1", false), ("a_b.localhost", true),
    ])
    func `localhost and its subdomains are this machine`(host: String, isLocal: Bool) {
        #expect(HostName(host)?.isLocalhost == isLocal)
    }

    @Test func `a domain contains itself and its subdomains`() {
        for (host, domain, isBelow) in [
            ("a.example", "example", true), ("example", "example", true), ("b.a.example", "a.example", true),
            ("aexample", "example", false), ("example", "a.example", false), ("127.0.0.1", "0.0.1", false),
            ("127.0.0.1", "127.0.0.1", true), ("example", "", false),
        ] {
            #expect(HostName.isName(host, equalToOrBelow: domain) == isBelow, "\(host) \(domain)")
        }
    }
}
