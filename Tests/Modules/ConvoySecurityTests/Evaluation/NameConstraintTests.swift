import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// Name constraints, which are checked for the requested host, because a wildcard may match more hosts than its
/// authority may certify.
@Suite struct NameConstraintTests {
    typealias Constraints = TestCertificate.NameConstraints

    private func reason(
        _ constraints: Constraints, _ names: [String], _ host: String, ofRoot: Bool = false, below: Int = 0,
        change: (inout SecurityPolicy, TestCertificate) throws -> Void = { _, _ in }
    ) throws -> ServerTrustFailure.Reason? {
        var constrained = TestCertificate.Profile.authority("Constrained")
        constrained.nameConstraints = constraints
        let root = try TestCertificate.root(ofRoot ? constrained : .authority("Root"))
        var issuer = ofRoot ? root : try root.issue(constrained)
        for number in 0..<below { issuer = try issuer.issue(.authority("Below \(number)")) }
        let leaf = try issuer.issue(.server(names))
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(root)])
        try change(&policy, leaf)
        let sent = ServerTrust(certificates: try leaf.chain.map { try Certificate($0) })
        return policy.evaluate(sent, forDomain: host).failure?.reason
    }

    @Test(arguments: [
        // Each row has the excluded subtree, the name in the certificate, the host, and whether the host is accepted.
        ("evil.example.com", "*.example.com", "evil.example.com", false),
        ("evil.example.com", "*.example.com", "EVIL.Example.COM", false),
        ("evil.example.com", "*.example.com", "evil.example.com.", false),
        ("EVIL.Example.Com", "*.example.com", "evil.example.com", false),
        ("evil.example.com", "*.Example.COM", "evil.example.com", false),
        ("evil.example.com", "*.example.com", "good.example.com", true),
        ("evil.example.com", "*.example.com", "notevil.example.com", true),
        ("evil.example.com", "*.evil.example.com", "a.evil.example.com", false),
        // According to RFC 5280 a subtree includes its own name. OpenSSL interprets a leading dot as subdomains only.
        (".evil.example.com", "*.example.com", "evil.example.com", true),
        (".example.com", "*.example.com", "evil.example.com", false),
        ("a.evil.example.com", "*.example.com", "evil.example.com", true),
        ("xn--bcher-kva.example.com", "*.example.com", "xn--bcher-kva.example.com", false),
        ("xn--bcher-kva.example.com", "*.example.com", "XN--BCHER-KVA.example.com", false),
        ("xn--bcher-kva.example.com", "*.example.com", "bucher.example.com", true),
        // Names without a wildcard are checked in the same way.
        ("evil.example.com", "evil.example.com", "evil.example.com", false),
        ("evil.example.com", "good.example.com", "good.example.com", true),
        ("example.org", "*.example.com", "evil.example.com", true),
    ])
    func `a host in an excluded subtree is rejected`(
        excluded: String, name: String, host: String, isRight: Bool
    ) throws {
        for (ofRoot, below) in [(false, 0), (true, 0), (true, 2), (false, 2)] {
            let reason = try reason(
                Constraints(excludedDNSNames: [excluded]), [name], host, ofRoot: ofRoot, below: below)
            #expect(reason == (isRight ? nil : .nameConstraints), "of the root: \(ofRoot), \(below) below")
        }
    }

    @Test(arguments: [
        ("example.com", "*.example.com", "evil.example.com", true),
        (".example.com", "*.example.com", "evil.example.com", true),
        ("EXAMPLE.com", "*.example.com", "Evil.Example.Com.", true),
        ("com", "*.example.com", "evil.example.com", true),
        ("good.example.com", "*.example.com", "good.example.com", false),
        ("good.example.com", "good.example.com", "good.example.com", true),
    ])
    func `only hosts outside the permitted subtrees are rejected`(
        permitted: String, name: String, host: String, isRight: Bool
    ) throws {
        #expect(
            try reason(Constraints(permittedDNSNames: [permitted]), [name], host) == (isRight ? nil : .nameConstraints))
    }

    @Test func `constraints apply only to the requested name, and networks only to addresses`() throws {
        let excluded = Constraints(excludedDNSNames: ["evil.example.com"], excludedNetworks: ["10.0.0.0/8"])
        let names = ["good.example.com", "*.example.com", "192.0.2.1"]
        #expect(try reason(excluded, names, "evil.example.com") == .nameConstraints)
        #expect(try reason(excluded, names, "good.example.com") == nil)
        #expect(try reason(excluded, names, "192.0.2.1") == nil)
        #expect(try reason(excluded, ["10.1.2.3"], "10.1.2.3") == .nameConstraints)
        let permitted = Constraints(permittedNetworks: ["192.0.2.0/24", "2001:db8::/32"])
        #expect(try reason(permitted, ["192.0.2.1"], "192.0.2.1") == nil)
        #expect(try reason(permitted, ["2001:db8::1"], "[2001:DB8:0::1]") == nil)
        #expect(try reason(permitted, ["198.51.100.1"], "198.51.100.1") == .nameConstraints)
        // The constraint for addresses does not apply to names.
        #expect(try reason(permitted, ["*.example.com"], "evil.example.com") == nil)
    }

    @Test func `a host that the certificate does not name is reported as a wrong host`() throws {
        let excluded = Constraints(excludedDNSNames: ["evil.example.com"])
        #expect(try reason(excluded, ["*.example.org"], "evil.example.com") == .wrongHost)
        #expect(try reason(excluded, ["*.example.com"], "a.evil.example.com") == .wrongHost)
    }

    @Test func `name constraints are ignored if the name is not checked`() throws {
        let excluded = Constraints(excludedDNSNames: ["evil.example.com"])
        let reason = try reason(excluded, ["*.example.com"], "evil.example.com") { policy, _ in
            policy.validatesDomainName = false
        }
        #expect(reason == nil)
    }

    @Test(arguments: [SecurityPolicy.PinningMode.publicKey, .certificate])
    func `a pin of the authority does not override its constraints`(mode: SecurityPolicy.PinningMode) throws {
        let excluded = Constraints(excludedDNSNames: ["evil.example.com"])
        for (host, isRight) in [("evil.example.com", false), ("good.example.com", true)] {
            for allowsInvalid in [false, true] {
                let reason = try reason(excluded, ["*.example.com"], host) { policy, leaf in
                    policy.pinningMode = mode
                    policy.pinnedCertificates = [try Certificate(#require(leaf.issuer))]
                    policy.allowInvalidCertificates = allowsInvalid
                    // The chain does not end at a trusted authority, so only the pin can make the server trusted.
                    if allowsInvalid { policy.certificateAuthorities = .certificates([try Certificate(.root())]) }
                }
                #expect((reason == nil) == isRight, "\(host), \(allowsInvalid): \(reason as Any)")
            }
        }
    }
}
