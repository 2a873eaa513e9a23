import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// The defaults and setters of a security policy.
@Suite struct SecurityPolicyTests {
    @Test func `the defaults are AFNetworking's`() {
        let policy = SecurityPolicy.default
        #expect(policy == SecurityPolicy() && policy.pinningMode == .none && !policy.isPinning)
        #expect(policy.pinnedCertificates.isEmpty && policy.pinnedPublicKeys.isEmpty && policy.backupPins.isEmpty)
        #expect(!policy.allowInvalidCertificates && policy.validatesDomainName && !policy.validatesCertificateChain)
        #expect(!policy.requiresStapledStatus && policy.pinsExpire == nil && policy.hostPolicies.isEmpty)
        #expect(policy.certificateAuthorities == .system)
        #expect(SecurityPolicy.PinningMode.allCases.map(\.rawValue) == [0, 1, 2])
    }

    @Test func `pinned certificates are stored once and in order, and their keys are pinned`() throws {
        let made = try TestCertificate.root()
        let (first, second) = (try Certificate(made), try Certificate(TestCertificate.root()))
        var policy = SecurityPolicy(pinningMode: .publicKey, pinnedCertificates: [second, first, second])
        #expect(policy.pinnedCertificates == [second, first])
        policy.pinnedCertificates.append(first)
        policy.pinnedCertificates += [second, first]
        #expect(policy.pinnedCertificates == [second, first])
        #expect(policy.pinnedPublicKeys == Set([first, second].compactMap(\.publicKeyPin)))
        // A renewed certificate is different, but has the same key.
        policy.pinnedCertificates.append(try Certificate(made.reissued()))
        #expect(policy.pinnedCertificates.count == 3 && policy.pinnedPublicKeys.count == 2)
        policy.pinnedCertificates = []
        #expect(policy.pinnedPublicKeys.isEmpty && policy.isPinning)
    }

    @Test func `pins can be specified as strings`() throws {
        let pin = { (byte: UInt8) in "sha256/" + Data(repeating: byte, count: 32).base64EncodedString() }
        let policy = try SecurityPolicy(publicKeyPins: [pin(1), pin(2), pin(1)], backupPins: [pin(3)])
        #expect(policy.pinningMode == .publicKey && policy.isPinning)
        #expect(policy.publicKeyPins.count == 2 && policy.backupPins.count == 1 && policy.pinnedPublicKeys.count == 3)
        #expect(throws: SecurityTextError.self) { try SecurityPolicy(publicKeyPins: [pin(1), "x"]) }
        #expect(throws: SecurityTextError.self) { try SecurityPolicy(publicKeyPins: [], backupPins: ["x"]) }
    }

    @Test func `a host's policy has no host policies of its own, and nil removes it`() throws {
        var inner = SecurityPolicy(pinningMode: .certificate)
        try inner.setPolicy(SecurityPolicy(), forHosts: "x.test")
        var policy = SecurityPolicy()
        try policy.setPolicy(inner, forHosts: "*.example.com")
        #expect(policy.policy(forHost: "a.example.com").hostPolicies.isEmpty)
        #expect(policy.policy(forHost: "a.example.com").pinningMode == .certificate)
        #expect(policy.policy(forHost: "example.com") == policy)
        #expect(throws: SecurityTextError.self) { try policy.setPolicy(inner, forHosts: "*") }
        try policy.setPolicy(nil, forHosts: "*.EXAMPLE.com.")
        #expect(policy == SecurityPolicy())
    }

    @Test func `policies that differ in any setting are not equal`() throws {
        let certificate = try Certificate(TestCertificate.root())
        let pin = try #require(certificate.publicKeyPin)
        let changes: [(inout SecurityPolicy) throws -> Void] = [
            { $0.pinningMode = .publicKey }, { $0.pinningMode = .certificate },
            { $0.pinnedCertificates = [certificate] },
            { $0.publicKeyPins = [pin] }, { $0.backupPins = [pin] }, { $0.pinsExpire = Date(timeIntervalSince1970: 0) },
            { $0.allowInvalidCertificates = true }, { $0.validatesDomainName = false },
            { $0.validatesCertificateChain = true }, { $0.requiresStapledStatus = true },
            { $0.certificateAuthorities = .certificates([certificate]) },
            { $0.certificateAuthorities = .systemAnd([certificate]) },
            { $0.certificateAuthorities = .file(URL(fileURLWithPath: "/a")) },
            { $0.certificateAuthorities = .directory(URL(fileURLWithPath: "/a")) },
            { try $0.setPolicy(SecurityPolicy(), forHosts: "a.test") },
            { try $0.setPolicy(SecurityPolicy(pinningMode: .publicKey), forHosts: "a.test") },
        ]
        var all: Set<SecurityPolicy> = [SecurityPolicy()]
        for change in changes {
            var policy = SecurityPolicy()
            try change(&policy)
            var same = SecurityPolicy()
            try change(&same)
            #expect(policy == same && policy.hashValue == same.hashValue)
            all.insert(policy)
        }
        #expect(all.count == changes.count + 1)
    }
}
