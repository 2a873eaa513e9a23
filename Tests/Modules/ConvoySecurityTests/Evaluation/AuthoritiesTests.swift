import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The sources of a policy's authorities.
@Suite struct AuthoritiesTests {
    private static let bundle = "/etc/ssl/certs/ca-certificates.crt"
    let root: TestCertificate
    let trust: ServerTrust
    let directory: TemporaryDirectory

    init() throws {
        root = try .root()
        let certificate = try root.issue(.server("localhost"))
        trust = ServerTrust(certificates: [try Certificate(certificate)])
        directory = try TemporaryDirectory()
    }

    private func reason(_ authorities: CertificateAuthorities) -> ServerTrustFailure.Reason? {
        var policy = SecurityPolicy()
        policy.certificateAuthorities = authorities
        return policy.evaluate(trust, forDomain: "localhost").failure?.reason
    }

    @Test func `authorities can be in a file or a folder, in PEM or DER`() throws {
        let other = try TestCertificate.root()
        let pem = try directory.write(Data((other.pem + root.pem).utf8), to: "pem/a.pem")
        let der = try directory.write(root.derData, to: "der/a.cer")
        for file in [pem, der] {
            #expect(reason(.file(file)) == nil)
            #expect(reason(.directory(file.deletingLastPathComponent())) == nil)
        }
        let foreign = try directory.write(Data(other.pem.utf8), to: "other/a.pem")
        #expect(reason(.file(foreign)) == .unknownRoot)
        #expect(reason(.directory(foreign.deletingLastPathComponent())) == .unknownRoot)
        #expect(reason(.directory(directory.file("missing"))) == .unusablePolicy)
        #expect(reason(.file(directory.url)) == .unusablePolicy)
        #expect(reason(.file(try directory.write(Data("x".utf8), to: "x"))) == .unusablePolicy)
    }

    @Test func `certificates replace or extend the system's authorities`() throws {
        let certificate = try Certificate(root)
        #expect(reason(.certificates([certificate, certificate])) == nil)
        #expect(reason(.systemAnd([certificate])) == nil)
        #expect(reason(.system) == .unknownRoot && reason(.systemAnd([])) == .unknownRoot)
    }

    @Test func `an authority need not be self-signed, and can be the server's certificate`() throws {
        let between = try root.issue(.authority("Between"))
        let leaf = try between.issue(.server("localhost"))
        var policy = SecurityPolicy()
        for authority in [leaf, between, root] {
            policy.certificateAuthorities = .certificates([try Certificate(authority)])
            let decision = policy.evaluate(try ServerTrust(leaf, between), forDomain: "localhost")
            let certificate = try Certificate(authority)
            #expect(decision.isTrusted && decision.chain.contains(certificate))
        }
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: bundle), "missing: \(bundle)"))
    func `the system's bundle is read completely`() throws {
        let file = URL(fileURLWithPath: Self.bundle)
        let text = try String(contentsOf: file, encoding: .utf8)
        let certificates = try Certificate.certificates(contentsOf: file)
        #expect(certificates.count == text.ranges(of: "-----BEGIN CERTIFICATE-----").count)
        #expect(reason(.file(file)) == .unknownRoot)
        // A policy with these certificates trusts each of them.
        let now = Date()
        let valid = certificates.filter { ($0.notValidAfter ?? now) > now && ($0.notValidBefore ?? now) < now }
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates(certificates)
        let reasons = valid.map { policy.evaluate(ServerTrust(certificates: [$0]), forDomain: nil).failure?.reason }
        #expect(!reasons.contains(.unknownRoot) && !reasons.contains(.badSignature))
    }
}
