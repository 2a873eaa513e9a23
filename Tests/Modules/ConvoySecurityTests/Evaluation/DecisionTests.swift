import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// The details of a decision.
@Suite struct DecisionTests {
    let made: SpecimenAuthorities
    let server: TestCertificate
    let trust: ServerTrust

    init() throws {
        made = try SpecimenAuthorities()
        server = try made.intermediate.issue(SpecimenAuthorities.server)
        trust = ServerTrust(certificates: try server.chain.map { try Certificate($0) })
    }

    private func pins(_ pins: [TestCertificate], backup: [TestCertificate] = []) throws -> SecurityPolicy {
        var policy = try SecurityPolicy(publicKeyPins: pins.map(\.publicKeyPin), backupPins: backup.map(\.publicKeyPin))
        policy.certificateAuthorities = try made.trusted
        return policy
    }

    @Test func `a decision contains the verified chain, including the root that was not sent`() throws {
        let decision = try pins([made.root]).evaluate(trust, forDomain: "api.example.localhost")
        #expect(decision.isTrusted)
        #expect(
            decision.chain == [try Certificate(server), try Certificate(made.intermediate), try Certificate(made.root)])
    }

    @Test func `a backup pin is reported if no other pin matched`() throws {
        let host = "api.example.localhost"
        #expect(try pins([], backup: [server]).evaluate(trust, forDomain: host).usesBackupPin)
        #expect(try pins([made.otherRoot], backup: [made.root]).evaluate(trust, forDomain: host).usesBackupPin)
        #expect(try !pins([server], backup: [server]).evaluate(trust, forDomain: host).usesBackupPin)
        #expect(try !pins([made.root], backup: [server]).evaluate(trust, forDomain: host).usesBackupPin)
        #expect(try !pins([made.otherRoot], backup: [made.otherRoot]).evaluate(trust, forDomain: host).usesBackupPin)
    }

    @Test func `names are compared again after the pins have expired`() throws {
        let end = Date(timeIntervalSinceNow: 600)
        var policy = try pins([made.otherRoot])
        policy.pinsExpire = end
        (policy.validatesDomainName, policy.allowInvalidCertificates) = (false, true)
        let reason = { (host: String, date: Date) in policy.evaluate(trust, forDomain: host, at: date).failure?.reason }
        #expect(reason("api.example.localhost", end - 1) == .notPinned)
        #expect(reason("api.example.localhost", end) == nil && reason("other.test", end + 1) == .wrongHost)
    }

    @Test func `validity is evaluated at the given date`() throws {
        var policy = SecurityPolicy()
        policy.certificateAuthorities = try made.trusted
        let (from, until) = (server.profile.notBefore, server.profile.notAfter)
        let reason = { (date: Date) in
            policy.evaluate(trust, forDomain: "api.example.localhost", at: date).failure?.reason
        }
        #expect(reason(from - 5) == .notYetValid && reason(until + 5) == .expired)
        #expect(reason(Date()) == nil)
        #expect(reason(.distantPast) == .notYetValid && reason(.distantFuture) == .expired)
        #expect(reason(Date(timeIntervalSince1970: .infinity)) == .expired)
        #expect(reason(Date(timeIntervalSince1970: -.infinity)) == .notYetValid)
        #expect(reason(Date(timeIntervalSince1970: .nan)) != nil)
    }

    @Test func `names are not checked without a domain`() throws {
        let decision = try pins([server]).evaluate(trust, forDomain: nil)
        #expect(decision.isTrusted)
    }

    @Test func `all faults are reported with their certificate, the worst first`() throws {
        var profile = TestCertificate.Profile.server("other.test", "*.other.test")
        profile.notAfter = Date(timeIntervalSinceNow: -60)
        let bad = try Certificate(TestCertificate.selfSigned(profile))
        var policy = SecurityPolicy()
        policy.certificateAuthorities = try made.trusted
        let failure = policy.evaluate(ServerTrust(certificates: [bad]), forDomain: "api.example.localhost").failure
        #expect(failure?.reasons == [.unknownRoot, .wrongHost, .expired] && failure?.reason == .unknownRoot)
        #expect(failure?.certificate == bad && failure?.errorDescription == failure?.description)
        let text = failure?.description ?? ""
        #expect(text.contains("api.example.localhost") && text.contains("*.other.test") && text.contains("expired on"))
    }

    @Test func `a certificate with only a common name is reported as having no names`() throws {
        var profile = SpecimenAuthorities.server
        profile.omitsSubjectAlternativeNames = true
        let old = try made.intermediate.issue(profile)
        var policy = SecurityPolicy()
        policy.certificateAuthorities = try made.trusted
        let sent = ServerTrust(certificates: try old.chain.map { try Certificate($0) })
        let failure = policy.evaluate(sent, forDomain: "api.example.localhost").failure
        #expect(failure?.reason == .wrongHost)
        #expect(failure?.description.contains("is not for api.example.localhost: it contains no host names. ") == true)
    }

    @Test func `a pinning failure lists the keys, so that they can be pinned`() throws {
        let failure = try pins([made.otherRoot]).evaluate(trust, forDomain: "api.example.localhost").failure
        #expect(failure?.reason == .notPinned)
        for certificate in [server, made.intermediate, made.root] {
            #expect(failure?.description.contains(certificate.publicKeyPin) == true)
        }
    }

    @Test func `names are shown without terminal control sequences`() throws {
        let odd = try made.intermediate.issue(
            .server("\u{1B}[2J.example.localhost", String(repeating: "x", count: 4_000)))
        var policy = SecurityPolicy()
        policy.certificateAuthorities = try made.trusted
        let sent = ServerTrust(certificates: try odd.chain.map { try Certificate($0) })
        let text = try #require(policy.evaluate(sent, forDomain: "api.example.localhost").failure?.description)
        #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 } && text.count < 1_000)
    }

    @Test func `a host's policy applies, with its own authorities`() throws {
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(made.otherRoot)])
        var own = SecurityPolicy()
        own.certificateAuthorities = .certificates([try Certificate(made.root)])
        try policy.setPolicy(own, forHosts: "*.example.localhost")
        #expect(policy.evaluate(trust, forDomain: "API.example.localhost.").isTrusted)
        try policy.setPolicy(nil, forHosts: "*.example.localhost")
        #expect(policy.evaluate(trust, forDomain: "api.example.localhost").failure?.reason == .unknownRoot)
    }
}
