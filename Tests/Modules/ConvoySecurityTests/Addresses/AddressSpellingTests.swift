import ConvoySecurity
import Testing

/// Decisions for all spellings of addresses and networks, which depend on the address to which the system connects.
@Suite struct AddressSpellingTests {
    private func isLetThrough(_ address: String, allow: [String] = [], deny: [String] = []) throws -> Bool {
        let own = AddressGuard(allow: try allow.map { try IPNetwork($0) }, deny: try deny.map { try IPNetwork($0) })
        return own.refusal(of: try #require(IPAddress(address), "\(address)")) == nil
    }

    /// Spellings of addresses, and which of the lists allow them. The expected results were determined manually.
    ///
    /// The lists deny 127.0.0.0/8, ::ffff:127.0.0.0/104, 127.0.0.1 and ::ffff:7f00:1 alone, ::1, all of IPv6, all
    /// mapped addresses, and 10.0.0.0/8 as a mapped network.
    private static let lists = [
        ["127.0.0.0/8"], ["::ffff:127.0.0.0/104"], ["127.0.0.1"], ["::ffff:7f00:1"], ["::1"], ["::/0"], ["::ffff:0:0/96"],
        ["::ffff:10.0.0.0/104"],
    ]
    private static let table: [(address: String, denied: [Bool])] = [
        ("127.0.0.1", [true, true, true, true, false, false, true, false]),
        ("127.9.9.9", [true, true, false, false, false, false, true, false]),
        ("::ffff:127.0.0.1", [true, true, true, true, false, true, true, false]),
        ("::ffff:7f09:909", [true, true, false, false, false, true, true, false]),
        // The system connects to itself for the unspecified address.
        ("0.0.0.0", [true, true, true, true, false, false, true, false]),
        ("::ffff:0.0.0.0", [true, true, true, true, false, true, true, false]),
        ("::", [false, false, false, false, true, true, false, false]),
        ("::1", [false, false, false, false, true, true, false, false]),
        ("0.0.0.1", [false, false, false, false, false, false, true, false]),
        ("8.8.8.8", [false, false, false, false, false, false, true, false]),
        ("::ffff:8.8.8.8", [false, false, false, false, false, true, true, false]),
        ("10.1.2.3", [false, false, false, false, false, false, true, true]),
        ("2001:db8::1", [false, false, false, false, false, true, false, false]),
        // Gateways forward connections to the embedded address.
        ("64:ff9b::127.0.0.1", [true, true, true, true, false, true, true, false]),
        ("64:ff9b::0.0.0.0", [true, true, true, true, false, true, true, false]),
        ("64:ff9b::10.0.0.1", [false, false, false, false, false, true, true, true]),
        ("2002:7f00:1::1", [true, true, true, true, false, true, true, false]),
        ("2002:a00:1::1", [false, false, false, false, false, true, true, true]),
        ("::127.0.0.1", [true, true, true, true, false, true, true, false]),
    ]

    @Test func `a denied network applies to every spelling of an address`() throws {
        for (address, denied) in Self.table {
            for (list, isDenied) in zip(Self.lists, denied) {
                #expect(try isLetThrough(address, deny: list) == !isDenied, "\(address), denying \(list)")
            }
        }
    }

    /// The same lists, as the only allowed networks.
    @Test(arguments: [
        ("127.0.0.1", ["127.0.0.0/8"], true), ("127.0.0.1", ["::ffff:127.0.0.0/104"], true),
        ("::ffff:127.0.0.1", ["127.0.0.0/8"], true), ("::ffff:127.0.0.1", ["::ffff:127.0.0.0/104"], true),
        ("127.0.0.1", ["::ffff:0:0/96"], true), ("8.8.8.8", ["::ffff:0:0/96"], true), ("::1", ["::ffff:0:0/96"], false),
        ("10.0.0.1", ["::ffff:127.0.0.0/104"], false),
        // All of IPv6 does not include IPv4 addresses in any spelling, because the system connects over IPv4.
        ("127.0.0.1", ["::/0"], false), ("::ffff:127.0.0.1", ["::/0"], false), ("::ffff:127.0.0.1", ["::/80"], false),
        ("2001:db8::1", ["::/0"], true), ("::1", ["::/0"], true),
        // Both the address itself and the address it leads to must be allowed.
        ("0.0.0.0", ["127.0.0.0/8"], false), ("0.0.0.0", ["0.0.0.0/8"], false), ("0.0.0.0", ["0.0.0.0"], false),
        ("0.0.0.0", ["0.0.0.0", "127.0.0.1"], true), ("0.0.0.0", ["0.0.0.0/0"], true),
        ("::ffff:0.0.0.0", ["0.0.0.0", "127.0.0.1"], true), ("::ffff:0.0.0.0", ["::ffff:0:0/96"], true),
        ("::", ["::/128"], false), ("::", ["::1"], false), ("::", ["::/127"], true), ("::", ["::/0"], true),
        ("64:ff9b::127.0.0.1", ["64:ff9b::/96"], true), ("64:ff9b::127.0.0.1", ["127.0.0.0/8"], false),
    ])
    func `an allowed network applies to every spelling of an address`(
        address: String, allow: [String], isRight: Bool
    ) throws {
        #expect(try isLetThrough(address, allow: allow) == isRight)
    }

    @Test func `a denied part of an allowed network is denied in every spelling`() throws {
        for allow in [["127.0.0.0/8"], ["::ffff:127.0.0.0/104"], ["0.0.0.0/0", "::/0"]] {
            for deny in ["127.0.0.1", "::ffff:127.0.0.1"] {
                #expect(try !isLetThrough("127.0.0.1", allow: allow, deny: [deny]))
                #expect(try !isLetThrough("::ffff:127.0.0.1", allow: allow, deny: [deny]))
                #expect(try !isLetThrough("0.0.0.0", allow: allow, deny: [deny]))
                #expect(try isLetThrough("127.0.0.2", allow: allow, deny: [deny]))
            }
        }
    }

    @Test func `an exception to the public addresses can be an IPv4-mapped network`() throws {
        let own = AddressGuard.publicAddresses.allowing(try IPNetwork("::ffff:10.0.0.0/104"))
        let narrower = own.denying(try IPNetwork("::ffff:10.1.0.0/112"))
        for (text, first, second) in [
            ("10.2.0.1", true, true), ("::ffff:10.2.0.1", true, true), ("10.1.0.1", true, false),
            ("::ffff:10.1.0.1", true, false), ("127.0.0.1", false, false), ("0.0.0.0", false, false),
        ] {
            let address = try #require(IPAddress(text))
            #expect((own.refusal(of: address) == nil) == first, "\(text)")
            #expect((narrower.refusal(of: address) == nil) == second, "\(text)")
        }
        // The unspecified address leads to this machine, which is not public.
        let unspecified = AddressGuard.publicAddresses.allowing(try IPNetwork("0.0.0.0/8"), try IPNetwork("::/128"))
        for text in ["0.0.0.0", "::", "::ffff:0:0"] {
            #expect(unspecified.refusal(of: try #require(IPAddress(text))) != nil, "\(text)")
        }
    }

    @Test func `a refusal names the network as it was specified`() throws {
        let network = try IPNetwork("::ffff:127.0.0.0/104")
        let own = AddressGuard(deny: [network])
        #expect(own.deniedNetworks == [network])
        #expect(own.refusal(of: try #require(IPAddress("127.0.0.1")))?.network == network)
        #expect(own.refusal(of: try #require(IPAddress("0.0.0.0")))?.network == network)
    }
}
