import Testing

@testable import ConvoyTransport

/// Tests that the patterns of `no_proxy` have the same meaning as in libcurl.
@Suite struct ProxyExceptionsTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let patterns: String
        let host: String
        let isException: Bool
        var testDescription: String { "\(host) in \"\(patterns)\"" }

        init(_ patterns: String, _ host: String, _ isException: Bool) {
            self.patterns = patterns
            self.host = host
            self.isException = isException
        }
    }

    @Test(arguments: [
        Case("", "example.com", false),
        Case("*", "example.com", true),
        Case("*", "[::1]", true),
        Case("*,other.example", "example.com", false),
        Case("*.example.com", "www.example.com", false),
        Case("a_b.example", "c.A_B.example.", true),
        Case("Bücher.example", "www.xn--bcher-kva.example", true),
        Case("localhost", "a.localhost", true),
        Case("example.com", "example.com", true),
        Case("example.com", "EXAMPLE.com", true),
        Case("Example.COM", "www.example.com", true),
        Case("example.com", "nonexample.com", false),
        Case("www.example.com", "example.com", false),
        Case(".example.com", "example.com", true),
        Case(".example.com", "www.example.com", true),
        Case(".example.com", "nonexample.com", false),
        Case("example.com.", "example.com", true),
        Case("example.com", "example.com.", true),
        Case(".example.com.", "www.example.com.", true),
        Case(".", "example.com", false),
        Case("a.example, b.example", "b.example", true),
        Case("a.example b.example\tc.example", "c.example", true),
        Case(",,a.example,,,b.example,", "b.example", true),
        Case("a.example,b.example", "c.example", false),
        Case("example.com:80", "example.com", false),
        Case("127.0.0.1", "127.0.0.1", true),
        Case("127.0.0.1", "127.0.0.2", false),
        Case("27.0.0.1", "127.0.0.1", false),
        Case(".0.0.1", "127.0.0.1", false),
        Case("localhost", "127.0.0.1", false),
        Case("192.168.0.0/16", "192.168.7.9", true),
        Case("192.168.0.0/16", "192.169.0.1", false),
        Case("192.168.1.128/25", "192.168.1.200", true),
        Case("192.168.1.128/25", "192.168.1.100", false),
        Case("192.168.1.1/32", "192.168.1.1", true),
        Case("192.168.1.1/33", "192.168.1.1", false),
        Case("192.168.1.1/0", "192.168.1.1", true),
        Case("192.168.1.1/0", "10.0.0.1", false),
        Case("192.168.0.0/16", "192.168.example", false),
        Case("192.168.0.0/16", "::ffff:192.168.0.1", false),
        Case("::1", "[::1]", true),
        Case("[::1]", "::1", true),
        Case("0:0::1", "[::1]", true),
        Case("fd00::/8", "[fd12::3]", true),
        Case("[fd00::]/8", "[fd12::3]", true),
        Case("fd00::/8", "[fe80::3]", false),
        Case("2001:db8::/33", "[2001:db8:7fff::1]", true),
        Case("2001:db8::/33", "[2001:db8:8000::1]", false),
        Case("::/129", "[::1]", false),
        Case("fe80::1", "[fe80::1%25eth0]", true),
    ])
    func `a host that matches a pattern is an exception`(_ expected: Case) {
        #expect(ProxyExceptions(expected.patterns).contains(expected.host) == expected.isException)
    }
}
