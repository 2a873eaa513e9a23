import ConvoySecurity
import Testing

/// Decisions of address guards, regardless of how the address is written, and the network reported for a refusal.
@Suite struct AddressGuardTests {
    private func refusal(_ text: String, by addressGuard: AddressGuard) throws -> AddressRefusal? {
        addressGuard.refusal(of: try #require(IPAddress(text), "\(text)"))
    }

    /// Addresses, each with the network in IANA's registries that contains it.
    @Test(arguments: [
        ("0.0.0.0", "0.0.0.0/8"), ("0.1.2.3", "0.0.0.0/8"), ("10.0.0.1", "10.0.0.0/8"),
        ("10.255.255.255", "10.0.0.0/8"), ("100.64.0.1", "100.64.0.0/10"), ("100.127.255.255", "100.64.0.0/10"),
        ("127.0.0.1", "127.0.0.0/8"), ("127.255.255.254", "127.0.0.0/8"), ("169.254.169.254", "169.254.0.0/16"),
        ("172.16.0.1", "172.16.0.0/12"), ("172.31.255.255", "172.16.0.0/12"), ("192.0.0.1", "192.0.0.0/24"),
        ("192.0.0.8", "192.0.0.0/24"), ("192.0.0.170", "192.0.0.0/24"), ("192.0.2.1", "192.0.2.0/24"),
        ("192.88.99.1", "192.88.99.0/24"), ("192.168.0.1", "192.168.0.0/16"), ("198.18.0.1", "198.18.0.0/15"),
        ("198.19.255.255", "198.18.0.0/15"), ("198.51.100.7", "198.51.100.0/24"), ("203.0.113.7", "203.0.113.0/24"),
        ("224.0.0.1", "224.0.0.0/4"), ("239.255.255.255", "224.0.0.0/4"), ("240.0.0.1", "240.0.0.0/4"),
        ("255.255.255.255", "255.255.255.255/32"),
        ("::", "::/128"), ("::1", "::1/128"), ("::2", "::/0"), ("::ffff:127.0.0.1", "127.0.0.0/8"),
        ("::ffff:7f00:1", "127.0.0.0/8"), ("::ffff:a9fe:a9fe", "169.254.0.0/16"), ("::127.0.0.1", "::/0"),
        ("::8.8.8.8", "::/0"), ("::ffff:0:8.8.8.8", "::/0"), ("64:ff9b::127.0.0.1", "127.0.0.0/8"),
        ("64:ff9b::10.0.0.1", "10.0.0.0/8"), ("64:ff9b:1::8.8.8.8", "64:ff9b:1::/48"), ("100::1", "100::/64"),
        ("100:0:0:1::1", "100:0:0:1::/64"), ("2001::1", "0.0.0.0/8"),
        // The client's address is sent with inverted bits: this is 10.0.0.1.
        ("2001:0:808:808:0:0:f5ff:fffe", "10.0.0.0/8"), ("2001:0:7f00:1:0:0:f7f7:f7f7", "127.0.0.0/8"),
        ("2001:2::1", "2001:2::/48"), ("2001:10::1", "2001:10::/28"), ("2001:1::4", "2001::/23"),
        ("2001:100::1", "2001::/23"), ("2001:db8::1", "2001:db8::/32"), ("2002:7f00:1::1", "127.0.0.0/8"),
        ("2002:a9fe:a9fe::1", "169.254.0.0/16"), ("2600::5efe:10.0.0.1", "10.0.0.0/8"),
        ("2600::200:5efe:192.168.0.1", "192.168.0.0/16"), ("3fff::1", "3fff::/20"), ("4000::1", "::/0"),
        ("5f00::1", "5f00::/16"), ("fc00::1", "fc00::/7"), ("fd12::1", "fc00::/7"), ("fe80::1", "fe80::/10"),
        ("fec0::1", "fec0::/10"), ("ff02::1", "ff00::/8"),
    ])
    func `an address that is not globally reachable is refused`(_ text: String, _ network: String) throws {
        let refusal = try #require(try refusal(text, by: .publicAddresses), "\(text) was allowed")
        #expect(refusal.network == (try IPNetwork(network)), "\(text): \(refusal)")
    }

    @Test(arguments: [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.0.9", "192.0.0.10", "192.0.1.1", "192.167.255.255",
        "198.17.255.255", "198.20.0.0", "223.255.255.255", "2000::1", "2600::1", "2001:200::1", "2001:1::1", "2001:1::2",
        "2001:3::1", "2001:4:112::1", "2001:20::1", "2a00:1450::1", "2620:4f:8000::1", "64:ff9b::8.8.8.8",
        "2002:808:808::1", "2001:0:808:808:0:0:f7f7:f7f7", "::ffff:8.8.8.8", "2600::5efe:8.8.8.8",
    ])
    func `a globally reachable address is allowed`(_ text: String) throws {
        #expect(try refusal(text, by: .publicAddresses) == nil)
    }

    @Test func `a loopback-only guard allows loopback addresses only`() throws {
        for text in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            #expect(try refusal(text, by: .loopbackOnly) == nil, "\(text)")
        }
        for text in ["8.8.8.8", "10.0.0.1", "0.0.0.0", "::", "2600::1", "::127.0.0.1", "64:ff9b::127.0.0.1"] {
            let refusal = try #require(try refusal(text, by: .loopbackOnly), "\(text)")
            #expect(refusal.network == nil)
        }
    }

    @Test func `denied networks take precedence over allowed networks`() throws {
        let own = AddressGuard(allow: [try IPNetwork("10.0.0.0/8")], deny: [try IPNetwork("10.1.0.0/16")])
        #expect(try refusal("10.2.0.1", by: own) == nil)
        #expect(try refusal("10.1.0.1", by: own)?.network == IPNetwork("10.1.0.0/16"))
        #expect(try refusal("::ffff:10.1.0.1", by: own)?.network == IPNetwork("10.1.0.0/16"))
        // No other address is in the list.
        #expect(try refusal("8.8.8.8", by: own) != nil)
        let denying = AddressGuard(deny: [try IPNetwork("10.1.0.0/16")])
        #expect(try refusal("8.8.8.8", by: denying) == nil)
        #expect(try refusal("10.1.0.1", by: denying) != nil)
        // The address to which a gateway would forward the connection is checked as well.
        #expect(try refusal("64:ff9b::10.1.0.1", by: denying) != nil)
        #expect(try refusal("::10.1.0.1", by: denying) != nil)
    }

    @Test func `an exception applies to its own network only`() throws {
        let own = AddressGuard.publicAddresses.allowing(try IPNetwork("10.1.0.0/16"), try IPNetwork("fd00:1::/32"))
        #expect(try refusal("10.1.2.3", by: own) == nil)
        #expect(try refusal("::ffff:10.1.2.3", by: own) == nil)
        #expect(try refusal("64:ff9b::10.1.2.3", by: own) == nil)
        #expect(try refusal("fd00:1::1", by: own) == nil)
        #expect(try refusal("10.2.0.1", by: own) != nil)
        #expect(try refusal("fd00:2::1", by: own) != nil)
        #expect(try refusal("8.8.8.8", by: own) == nil)
        let narrower = own.denying(try IPNetwork("10.1.9.0/24"), try IPNetwork("8.8.8.0/24"))
        #expect(try refusal("10.1.9.1", by: narrower)?.network == IPNetwork("10.1.9.0/24"))
        #expect(try refusal("8.8.8.8", by: narrower) != nil)
        #expect(try refusal("10.1.2.3", by: narrower) == nil)
    }

    @Test func `a refusal states whether the address is the server's or the proxy's`() throws {
        let address = try #require(IPAddress("127.0.0.1"))
        let server = try #require(AddressGuard.publicAddresses.refusal(of: address))
        #expect(server.description == "The address 127.0.0.1 is refused because it is in 127.0.0.0/8.")
        let proxy = try #require(AddressGuard.publicAddresses.refusal(of: address, isProxy: true))
        #expect(proxy.isProxy && proxy.description.hasPrefix("The proxy's address 127.0.0.1 "))
    }
}
