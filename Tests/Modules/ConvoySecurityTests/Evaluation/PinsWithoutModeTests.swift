import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// Pins and name validation, which apply regardless of the other settings of a policy.
@Suite struct PinsWithoutModeTests {
    let root: TestCertificate
    let server: TestCertificate
    let trust: ServerTrust
    let another: Certificate

    init() throws {
        root = try .root()
        server = try root.issue(.server("api.example.test"))
        trust = try ServerTrust(server)
        another = try Certificate(TestCertificate.selfSigned(.server("api.example.test")))
    }

    private func policy(_ change: (inout SecurityPolicy) throws -> Void) throws -> SecurityPolicy {
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(root)])
        try change(&policy)
        return policy
    }

    private func reason(_ policy: SecurityPolicy, _ host: String = "api.example.test") -> ServerTrustFailure.Reason? {
        policy.evaluate(trust, forDomain: host).failure?.reason
    }

    @Test func `pins set without a mode are enforced`() throws {
        let (own, other) = (try #require(try Certificate(server).publicKeyPin), try #require(another.publicKeyPin))
        #expect(try reason(policy { $0.publicKeyPins = [other] }) == .notPinned)
        #expect(try reason(policy { $0.backupPins = [other] }) == .notPinned)
        #expect(try reason(policy { $0.pinnedCertificates = [another] }) == .notPinned)
        #expect(try reason(policy { $0.publicKeyPins = [own] }) == nil)
        #expect(try reason(policy { $0.backupPins = [own] }) == nil)
        #expect(try reason(policy { $0.pinnedCertificates = [try Certificate(server)] }) == nil)
        #expect(try policy { $0.publicKeyPins = [other] }.isPinning)
        #expect(try policy { $0.backupPins = [other] }.isPinning)
        #expect(try policy { $0.pinnedCertificates = [another] }.isPinning)
        #expect(try !policy { _ in }.isPinning)
        // Certificates that are set together with pinned keys are pinned by their keys, as in that mode.
        let both = try policy { ($0.publicKeyPins, $0.pinnedCertificates) = ([other], [try Certificate(server)]) }
        #expect(reason(both) == nil)
    }

    @Test func `pins that were removed again are not enforced`() throws {
        var policy = try policy { $0.pinnedCertificates = [another] }
        policy.pinnedCertificates = []
        #expect(!policy.isPinning && reason(policy) == nil)
    }

    @Test func `a host's policy enforces pins without a mode too`() throws {
        let other = try #require(another.publicKeyPin)
        let own = try policy { $0.publicKeyPins = [other] }
        let whole = try policy { try $0.setPolicy(own, forHosts: "**.example.test") }
        #expect(reason(whole) == .notPinned)
        #expect(!whole.isPinning)
        var reverse = own
        try reverse.setPolicy(try policy { _ in }, forHosts: "API.example.test.")
        #expect(reason(reverse) == nil)
    }

    @Test func `the name of an invalid certificate with a pinned key is checked if required`() throws {
        let selfSigned = try TestCertificate.selfSigned(.server("api.example.test"))
        let pin = try #require(try Certificate(selfSigned).publicKeyPin)
        for mode in [SecurityPolicy.PinningMode.none, .publicKey, .certificate] {
            var policy = SecurityPolicy(pinningMode: mode)
            if mode == .certificate {
                policy.pinnedCertificates = [try Certificate(selfSigned)]
            } else {
                policy.publicKeyPins = [pin]
            }
            policy.allowInvalidCertificates = true
            for (host, names) in [
                ("api.example.test", true), ("API.Example.Test.", true), ("other.test", false), ("127.0.0.1", false),
                ("", false), ("api.example.test\0", false),
            ] {
                policy.validatesDomainName = true
                let trust = try ServerTrust(selfSigned)
                #expect(
                    policy.evaluate(trust, forDomain: host).failure?.reason == (names ? nil : .wrongHost),
                    "\(mode) \(host.debugDescription)")
                policy.validatesDomainName = false
                #expect(policy.evaluate(trust, forDomain: host).isTrusted, "\(mode) \(host.debugDescription)")
            }
        }
    }

    @Test func `forty faults do not hide a wrong name`() throws {
        var last = root
        for number in 0..<40 {
            var profile = TestCertificate.Profile.authority("Expired \(number)")
            profile.notAfter = Date(timeIntervalSinceNow: -1)
            last = try last.issue(profile)
        }
        let leaf = try last.issue(.server("other.test"))
        var policy = try policy { $0.publicKeyPins = [try #require(try Certificate(leaf).publicKeyPin)] }
        policy.allowInvalidCertificates = true
        let sent = ServerTrust(certificates: try leaf.chain.map { try Certificate($0) })
        #expect(policy.evaluate(sent, forDomain: "api.example.test").failure?.reason == .wrongHost)
    }
}
