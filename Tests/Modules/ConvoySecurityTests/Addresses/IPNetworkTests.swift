import Testing

@testable import ConvoySecurity

/// Strict parsing of networks, and the addresses they contain.
@Suite struct IPNetworkTests {
    @Test(arguments: [
        ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0", "::ffff:10.0.0.1", "::a00:1"]),
        ("192.168.1.128/25", ["192.168.1.128", "192.168.1.255"], ["192.168.1.127", "192.168.2.128"]),
        ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::"]),
        ("127.0.0.1", ["127.0.0.1"], ["127.0.0.0", "127.0.0.2"]),
        ("::/0", ["::", "ffff::1"], ["1.2.3.4"]),
        ("fe80::/10", ["fe80::1", "febf::1"], ["fec0::1", "fe7f::1"]),
        ("2001:DB8:0::/33", ["2001:db8:7fff::"], ["2001:db8:8000::"]),
        ("::1/128", ["::1"], ["::", "::2"]),
    ])
    func `a network contains the addresses that begin with its bits`(
        _ text: String, _ inside: [String], _ outside: [String]
    ) throws {
        let network = try IPNetwork(text)
        for address in inside { #expect(network.contains(try #require(IPAddress(address))), "\(address)") }
        for address in outside { #expect(!network.contains(try #require(IPAddress(address))), "\(address)") }
        #expect(try IPNetwork(network.description) == network)
    }

    @Test(arguments: [
        ("", SecurityTextError.notAnAddress("")),
        ("10/8", .notAnAddress("10")),
        ("10.0.0/8", .notAnAddress("10.0.0")),
        ("010.0.0.0/8", .notAnAddress("010.0.0.0")),
        ("0xa.0.0.0/8", .notAnAddress("0xa.0.0.0")),
        (" 10.0.0.0/8", .notAnAddress(" 10.0.0.0")),
        ("10.0.0.0\u{0}/8", .notAnAddress("10.0.0.0\u{0}")),
        ("[::1]/128", .notAnAddress("[::1]")),
        ("fe80::1%lo/64", .notAnAddress("fe80::1%lo")),
        ("example.com/8", .notAnAddress("example.com")),
        ("10.0.0.0/", .notALength("")),
        ("10.0.0.0/08", .notALength("08")),
        ("10.0.0.0/+8", .notALength("+8")),
        ("10.0.0.0/ 8", .notALength(" 8")),
        ("10.0.0.0/33", .notALength("33")),
        ("10.0.0.0/-1", .notALength("-1")),
        ("10.0.0.0/8/8", .notALength("8/8")),
        ("10.0.0.0/255.0.0.0", .notALength("255.0.0.0")),
        ("::/129", .notALength("129")),
        ("10.0.0.1/8", .hasBitsAfterLength("10.0.0.1/8")),
        ("fe80::1/64", .hasBitsAfterLength("fe80::1/64")),
    ])
    func `an invalid network is an error that describes the mistake`(_ text: String, _ expected: SecurityTextError) {
        #expect(throws: expected) { try IPNetwork(text) }
        #expect(expected.description.hasSuffix("."))
    }

    /// Only addresses of these forms embed others.
    @Test(arguments: [
        ("64:ff9b::7f00:1", ["127.0.0.1"]), ("64:ff9b::1:7f00:1", []), ("2002:7f00:1::", ["127.0.0.1"]),
        ("3002:7f00:1::", []), ("2003:7f00:1::", []),
        ("::ffff:127.0.0.1", []), ("fe80::5efe:7f00:1", ["127.0.0.1"]), ("fe80::5eff:7f00:1", []),
    ]) func `embedded addresses are found only in the forms that embed addresses`(
        _ text: String, _ embedded: [String]
    ) throws {
        #expect(try #require(IPAddress(text)).embedded.map(\.description) == embedded)
    }
}
