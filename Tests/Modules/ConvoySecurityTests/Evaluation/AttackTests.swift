import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Chains created by an attacker.
@Suite struct AttackTests {
    let made: SpecimenAuthorities
    let victim: TestCertificate

    init() throws {
        made = try SpecimenAuthorities()
        victim = try made.intermediate.issue(SpecimenAuthorities.server)
    }

    private func policy(
        _ mode: SecurityPolicy.PinningMode, _ pins: TestCertificate..., allowsInvalid: Bool = true
    ) throws
        -> SecurityPolicy
    {
        var policy = SecurityPolicy(pinningMode: mode, pinnedCertificates: try pins.map { try Certificate($0) })
        policy.allowInvalidCertificates = allowsInvalid
        policy.certificateAuthorities = try made.trusted
        return policy
    }

    private func reason(_ policy: SecurityPolicy, _ sent: [Certificate]) -> ServerTrustFailure.Reason? {
        policy.evaluate(ServerTrust(certificates: sent), forDomain: "api.example.localhost").failure?.reason
    }

    @Test func `a copy of the pinned certificate as a root does not certify a server`() throws {
        let attacker = try TestCertificate.selfSigned(SpecimenAuthorities.server)
        for pin in [victim, made.intermediate, made.root] {
            let sent = try [attacker, pin, pin, pin].map { try Certificate($0) }
            for mode in [SecurityPolicy.PinningMode.publicKey, .certificate] {
                #expect(try reason(policy(mode, pin), sent) == .notPinned)
                #expect(try reason(policy(mode, pin, allowsInvalid: false), sent) == .unknownRoot)
            }
        }
    }

    @Test func `the holder of a pinned server's key cannot certify others`() throws {
        let below = try victim.issue(SpecimenAuthorities.server)
        let sent = try below.chain.map { try Certificate($0) }
        for mode in [SecurityPolicy.PinningMode.publicKey, .certificate] {
            #expect(try reason(policy(mode, victim), sent) != nil)
            #expect(try reason(policy(mode, victim, allowsInvalid: false), sent) != nil)
        }
    }

    @Test func `another issuer's certificate for the pinned key does not certify a server`() throws {
        // This certificate has the victim's key, which is public, and names chosen by the attacker.
        let stolen = try TestCertificate.root(.authority("Mine")).issue(
            .authority("Stolen"), forKeyOf: made.intermediate)
        let attacker = try TestCertificate.root(.authority("Stolen")).issue(SpecimenAuthorities.server)
        let sent = try [attacker, stolen].map { try Certificate($0) }
        #expect(try reason(policy(.publicKey, made.intermediate), sent) == .notPinned)
    }

    @Test func `many minor faults do not hide a serious one`() throws {
        // Each authority below the pinned one has expired, which its pin permits. OpenSSL reports last that the
        // signature of the server's certificate is invalid.
        var policy = try policy(.publicKey, made.unknownRoot)
        policy.maximumChainDepth = 100
        for count in [0, 2, 30, 31, 32, 33, 40, 60] {
            var last = made.unknownRoot
            for number in 0..<count {
                var profile = TestCertificate.Profile.authority("Expired \(number)")
                profile.notAfter = Date(timeIntervalSinceNow: -1)
                last = try last.issue(profile)
            }
            let sent = try last.issue(SpecimenAuthorities.server).chain.map { try Certificate($0) }
            // Problems beyond the first 32 are not examined, and are never permitted.
            #expect(reason(policy, sent) == (count <= 32 ? nil : .notPinned), "\(count) between")
            var forged = sent[0].derData
            forged[forged.endIndex - 1] ^= 1
            let deceiving = try [Certificate(derData: forged)] + sent.dropFirst()
            #expect(reason(policy, deceiving) == .notPinned, "\(count) between")
        }
    }

    @Test func `a chain that is too long is rejected`() throws {
        var last = made.root
        for number in 0..<110 { last = try last.issue(.authority("Authority \(number)")) }
        let sent = try last.issue(SpecimenAuthorities.server).chain.map { try Certificate($0) }
        for mode in SecurityPolicy.PinningMode.allCases {
            #expect(try reason(policy(mode, made.root, allowsInvalid: false), sent) != nil)
        }
        #expect(try reason(policy(.publicKey, made.root), sent) != nil)
        #expect(try reason(policy(.certificate, made.root), sent) != nil)
    }

    @Test func `an unreadable key does not bypass the signatures`() throws {
        let real = try Certificate(made.intermediate.issue(SpecimenAuthorities.server)).derData
        // The object identifiers of an elliptic curve key and of the curve are replaced with unknown ones.
        for known in [[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01], [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]]
            as [[UInt8]]
        {
            var bytes = real
            let found = try #require(real.range(of: Data(known)))
            bytes[found.upperBound - 1] = 0x7F
            let sent = try [Certificate(derData: bytes), Certificate(made.intermediate), Certificate(made.root)]
            for pin in [made.intermediate, made.root] {
                for mode in [SecurityPolicy.PinningMode.publicKey, .certificate] {
                    #expect(try reason(policy(mode, pin), sent) != nil)
                    #expect(try reason(policy(mode, pin, allowsInvalid: false), sent) != nil)
                }
            }
        }
    }

    @Test func `a certificate with a changed byte is not trusted by its issuer's pin`() throws {
        let real = try Certificate(victim)
        let rest = try [Certificate(made.intermediate), Certificate(made.root)]
        let policies = try [
            policy(.publicKey, made.intermediate), policy(.certificate, made.intermediate),
            policy(.certificate, victim),
            policy(.none, allowsInvalid: false),
        ]
        for policy in policies { #expect(reason(policy, [real] + rest) == nil) }
        var random = SplitMix64(seed: 1)
        for index in real.derData.indices {
            var bytes = real.derData
            bytes[index] ^= UInt8.random(in: 1...255, using: &random)
            guard let changed = try? Certificate(derData: bytes), changed != real else { continue }
            for policy in policies { #expect(reason(policy, [changed] + rest) != nil, "byte \(index) of \(policy)") }
        }
    }

    @Test func `an empty chain and an empty policy are not trusted`() throws {
        #expect(try reason(policy(.none, allowsInvalid: false), []) == .noCertificate)
        #expect(try reason(policy(.publicKey, victim), []) == .noCertificate)
        let good = try victim.chain.map { try Certificate($0) }
        for mode in [SecurityPolicy.PinningMode.publicKey, .certificate] {
            #expect(try reason(policy(mode, allowsInvalid: false), good) == .notPinned)
            #expect(try reason(policy(mode), good) == .pinsMissing)
        }
        var nobody = SecurityPolicy()
        nobody.certificateAuthorities = .certificates([])
        #expect(reason(nobody, good) == .unusablePolicy)
        nobody.certificateAuthorities = .file(URL(fileURLWithPath: "/nonexistent"))
        #expect(reason(nobody, good) == .unusablePolicy)
    }

    @Test(arguments: [
        "", ".", "a b", ".example.localhost", "api.example.localhost\0", "bücher.example.localhost",
        "*.example.localhost",
        "a..b",
    ])
    func `a host that no certificate can name is rejected`(host: String) throws {
        let wild = try made.intermediate.issue(.server("*.example.localhost", host))
        let trust = ServerTrust(certificates: try wild.chain.map { try Certificate($0) })
        var policy = try policy(.publicKey, made.root, allowsInvalid: false)
        #expect(policy.evaluate(trust, forDomain: host).failure?.reason == .wrongHost)
        policy.validatesDomainName = false
        #expect(policy.evaluate(trust, forDomain: host).isTrusted)
    }
}
