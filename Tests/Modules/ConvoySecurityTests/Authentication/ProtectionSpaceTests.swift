import ConvoySecurity
import Foundation
import Testing

/// Equality of protection spaces.
@Suite struct ProtectionSpaceTests {
    private static let space = ProtectionSpace(
        host: "example.com", port: 443, scheme: "https", realm: "r", method: .basic)

    @Test func `protection spaces ignore the host's case and final dot, and the brackets of an address`() {
        for host in ["EXAMPLE.com", "example.com.", "Example.Com."] {
            #expect(ProtectionSpace(host: host, port: 443, scheme: "HTTPS", realm: "r", method: .basic) == Self.space)
        }
        let address = ProtectionSpace(host: "[2001:DB8::1]", port: 80, scheme: "http", method: .digest)
        #expect(address.host == "2001:db8::1")
        #expect(address == ProtectionSpace(host: "2001:db8::1", port: 80, scheme: "http", method: .digest))
    }

    @Test func `a single-label name with and without a final dot are different hosts`() {
        #expect(
            ProtectionSpace(host: "intranet.", port: 80, scheme: "http", method: .basic)
                != ProtectionSpace(host: "intranet", port: 80, scheme: "http", method: .basic))
    }

    @Test func `any other difference makes a different protection space`() {
        let others = [
            ProtectionSpace(host: "www.example.com", port: 443, scheme: "https", realm: "r", method: .basic),
            ProtectionSpace(host: "exam\u{FF50}le.com", port: 443, scheme: "https", realm: "r", method: .basic),
            ProtectionSpace(host: "\u{212A}.example.com", port: 443, scheme: "https", realm: "r", method: .basic),
            ProtectionSpace(host: "k.example.com", port: 443, scheme: "https", realm: "r", method: .basic),
            ProtectionSpace(host: "example.com..", port: 443, scheme: "https", realm: "r", method: .basic),
            ProtectionSpace(host: "example.com", port: 8443, scheme: "https", realm: "r", method: .basic),
            ProtectionSpace(host: "example.com", port: 443, scheme: "http", realm: "r", method: .basic),
            ProtectionSpace(host: "example.com", port: 443, scheme: "https", realm: "R", method: .basic),
            ProtectionSpace(host: "example.com", port: 443, scheme: "https", realm: nil, method: .basic),
            ProtectionSpace(host: "example.com", port: 443, scheme: "https", realm: "", method: .basic),
            ProtectionSpace(host: "example.com", port: 443, scheme: "https", realm: "r", method: .digest),
            ProtectionSpace(host: "example.com", port: 443, scheme: "https", realm: "r", method: .basic, isProxy: true),
        ]
        #expect(Set(others + [Self.space]).count == 13)
    }

    @Test func `a credential for http also applies to https at the standard ports, but not vice versa`() {
        func server(_ scheme: String, _ port: Int, host: String = "example.com") -> AuthenticatingServer {
            AuthenticatingServer(scheme: scheme, host: host, port: port)
        }
        let (plain, secure) = (server("http", 80), server("https", 443))
        #expect(secure.mayUseCredential(of: plain) && secure.mayUseCredential(of: secure))
        #expect(!plain.mayUseCredential(of: secure))
        for other in [server("http", 81), server("https", 444), server("http", 80, host: "www.example.com")] {
            #expect(!secure.mayUseCredential(of: other) && !other.mayUseCredential(of: secure))
        }
        #expect(!server("https", 8443).mayUseCredential(of: plain))
    }

    @Test func `the protection space of a URL has the default port of its scheme`() throws {
        func space(_ text: String) throws -> ProtectionSpace? {
            let url = try #require(URL(string: text))
            return ProtectionSpace(url: url, realm: "r", method: .basic)
        }
        #expect(try space("https://Example.com/a?b") == Self.space)
        #expect(try space("https://u:p@example.com:443") == Self.space)
        #expect(try space("http://[::1]:8080/")?.host == "::1")
        #expect(try space("http://example.com/")?.port == 80)
        #expect(try space("ftp://example.com/") == nil && space("/x") == nil && space("http:///x") == nil)
    }

    @Test func `a description contains no control characters`() {
        #expect("\(Self.space)" == #"basic "r" at https://example.com:443"#)
        let hostile = ProtectionSpace(
            host: "u:secret@ex\nample", port: 1, scheme: "http", realm: "a\r\n\u{1B}[2J\"", method: .ntlm, isProxy: true)
        let text = "\(hostile)"
        #expect(text.hasPrefix("ntlm \"a\\r\\n\\u{1B}[2J\\\"\" at the proxy http://"))
        #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 } && !text.contains("secret"))
        #expect(
            "\(ProtectionSpace(host: "::1", port: 3128, scheme: "http", method: .negotiate, isProxy: true))"
                == "negotiate at the proxy http://[::1]:3128")
    }
}
