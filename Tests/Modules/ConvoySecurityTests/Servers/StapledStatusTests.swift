import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

/// Policies that require a stapled OCSP response.
@Suite struct StapledStatusTests {
    private let root: TestCertificate
    private let issuer: TestCertificate
    private let certificate: TestCertificate

    init() throws {
        root = try .root()
        issuer = try root.issue(.authority("Issuer"))
        certificate = try issuer.issue(.server("localhost"))
    }

    private func load(
        _ response: Data?, _ version: TestServer.TLS.Version, required: Bool = true,
        _ change: (inout SecurityPolicy) throws -> Void = { _ in }
    ) async throws -> ServerTrustFailure.Reason? {
        var tls = TestServer.TLS(certificate)
        (tls.minimumVersion, tls.maximumVersion) = (version, version)
        tls.ocspResponse = response
        let server = try TestServer(tls: tls)
        server.route("/", .text("secret"))
        let outcome = try await Outcome(of: server.url("/", host: "localhost")) {
            $0.securityPolicy.certificateAuthorities = .certificates([try Certificate(root)])
            $0.securityPolicy.requiresStapledStatus = required
            try change(&$0.securityPolicy)
        }
        #expect(outcome.isRight(outcome.reason), "\(outcome)")
        #expect(outcome.error == nil || server.statistics.plaintextByteCount == 0)
        return outcome.reason
    }

    private func now(_ seconds: TimeInterval) -> Date { Date(timeIntervalSinceNow: seconds) }

    @Test(arguments: [TestServer.TLS.Version.tls12, .tls13])
    func `only a good, currently valid response about this certificate is accepted`(
        version: TestServer.TLS.Version
    ) async throws {
        let load = { (response: Data?) in try await self.load(response, version) }
        #expect(try await load(certificate.ocspResponse()) == nil)
        #expect(try await load(certificate.ocspResponse(status: .revoked)) == .revoked)
        #expect(try await load(certificate.ocspResponse(status: .unknown)) == .noValidStatus)
        #expect(try await load(nil) == .noValidStatus)
        #expect(try await load(Data()) == .noValidStatus)
        #expect(try await load(Data([0x30, 3, 0x0A, 1, 6])) == .noValidStatus)
        #expect(try await load(certificate.ocspResponse().dropLast()) == .noValidStatus)
        #expect(
            try await load(certificate.ocspResponse(thisUpdate: now(-9_000), nextUpdate: now(-3_600))) == .noValidStatus
        )
        #expect(try await load(certificate.ocspResponse(thisUpdate: now(3_600))) == .noValidStatus)
        #expect(try await load(issuer.issue(.server("localhost")).ocspResponse()) == .noValidStatus)
    }

    @Test(arguments: [TestServer.TLS.Version.tls12, .tls13])
    func `only the issuer, or a responder that it has authorized, may sign`(version: TestServer.TLS.Version) async throws {
        var profile = TestCertificate.Profile.server("responder.test")
        let plain = try issuer.issue(profile)
        profile.extendedKeyUsages = [.ocspSigning]
        let appointed = try issuer.issue(profile)
        let stranger = try TestCertificate.selfSigned(profile)
        let ofRoot = try root.issue(profile)
        let load = { (signer: TestCertificate) in
            try await self.load(certificate.ocspResponse(signedBy: signer), version)
        }
        #expect(try await load(appointed) == nil)
        for signer in [plain, stranger, ofRoot, certificate] { #expect(try await load(signer) == .noValidStatus) }
        // A responder's certificate can expire as well.
        profile.notAfter = now(-60)
        #expect(try await load(issuer.issue(profile)) == .noValidStatus)
    }

    @Test func `a stapled response without an expiry is valid for a day`() async throws {
        #expect(try await load(certificate.ocspResponse(nextUpdate: nil), .tls13) == nil)
        let old = try certificate.ocspResponse(thisUpdate: now(-90_000), nextUpdate: nil)
        #expect(try await load(old, .tls13) == .noValidStatus)
    }

    @Test func `a stapled response is ignored unless it is required`() async throws {
        #expect(try await load(certificate.ocspResponse(status: .revoked), .tls13, required: false) == nil)
        #expect(try await load(nil, .tls13, required: false) == nil)
    }

    @Test func `a host's policy can require a stapled response`() async throws {
        let change = { (policy: inout SecurityPolicy) throws in
            var own = policy
            own.requiresStapledStatus = true
            try policy.setPolicy(own, forHosts: "localhost")
        }
        #expect(try await load(nil, .tls13, required: false, change) == .noValidStatus)
        #expect(try await load(certificate.ocspResponse(), .tls13, required: false, change) == nil)
    }

    @Test func `a stapled response is required even if a pin matches`() async throws {
        let pin = try #require(try Certificate(certificate).publicKeyPin)
        let change = { (policy: inout SecurityPolicy) in
            (policy.pinningMode, policy.publicKeyPins) = (.publicKey, [pin])
        }
        #expect(try await load(certificate.ocspResponse(), .tls13, change) == nil)
        #expect(try await load(certificate.ocspResponse(status: .revoked), .tls13, change) == .revoked)
        #expect(try await load(nil, .tls12, change) == .noValidStatus)
    }
}
