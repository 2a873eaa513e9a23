import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Revocation lists, pins without a mode, and name constraints in handshakes.
@Suite struct RevokedServerTests {
    let root: TestCertificate
    let issuer: TestCertificate
    let certificate: TestCertificate
    let directory: TemporaryDirectory

    init() throws {
        root = try .root()
        issuer = try root.issue(.authority("Issuer"))
        certificate = try issuer.issue(.server("localhost"))
        directory = try TemporaryDirectory()
    }

    /// Atomically replaces the lists in the file.
    @discardableResult private func write(_ lists: Data..., to name: String = "lists.pem") throws -> URL {
        let text = lists.map {
            "-----BEGIN X509 CRL-----\n\($0.base64EncodedString())\n-----END X509 CRL-----\n"
        }
        let file = directory.file(name)
        try Data(text.joined().utf8).write(to: file, options: .atomic)
        return file
    }

    private func serve(_ response: Data? = nil) throws -> TestServer {
        var tls = TestServer.TLS(certificate)
        tls.ocspResponse = response
        let server = try TestServer(tls: tls)
        server.route("/", .text("secret"))
        return server
    }

    private func load(
        _ server: TestServer, _ lists: [URL], host: String = "localhost",
        _ change: (inout SecurityPolicy) throws -> Void = { _ in }
    ) async throws -> Outcome {
        let before = server.statistics.plaintextByteCount
        let outcome = try await Outcome(of: server.url("/", host: host)) {
            $0.securityPolicy.certificateAuthorities = .certificates([try Certificate(root)])
            $0.securityPolicy.revocationLists = lists
            try change(&$0.securityPolicy)
        }
        #expect(outcome.isRight(outcome.reason), "\(outcome)")
        #expect(outcome.error == nil || server.statistics.plaintextByteCount == before)
        return outcome
    }

    @Test func `a server whose certificate is revoked by a list receives no part of a request`() async throws {
        let server = try serve()
        let good = try write(root.revocationList(), issuer.revocationList(), to: "good.pem")
        let bad = try write(root.revocationList(), issuer.revocationList(revoking: [certificate], reason: 4), to: "bad.pem")
        #expect(try await load(server, [good]).body == "secret")
        let outcome = try await load(server, [bad])
        #expect(outcome.reason == .revoked)
        #expect(outcome.error?.serverTrustFailure?.revocation?.reason == .superseded)
        // Each policy has its own connections.
        #expect(try await load(server, [good]).body == "secret")
        #expect(try await load(server, []).body == "secret")
        let missing = try write(root.revocationList(), to: "missing.pem")
        #expect(try await load(server, [missing]).reason == .noValidRevocationList)
        #expect(try await load(server, [missing, good]).body == "secret")
        #expect(try await load(server, []) { try $0.setPolicy(own(root, [bad]), forHosts: "*.test") }.body == "secret")
        #expect(try await load(server, []) { try $0.setPolicy(own(root, [bad]), forHosts: "localhost") }.reason == .revoked)
    }

    private func own(_ root: TestCertificate, _ lists: [URL]) throws -> SecurityPolicy {
        var own = SecurityPolicy()
        own.certificateAuthorities = .certificates([try Certificate(root)])
        own.revocationLists = lists
        return own
    }

    @Test func `neither a stapled response nor a list overrides the other`() async throws {
        let stapling = try serve(certificate.ocspResponse())
        let revoked = try serve(certificate.ocspResponse(status: .revoked))
        let good = try write(root.revocationList(), issuer.revocationList(), to: "good.pem")
        let bad = try write(root.revocationList(), issuer.revocationList(revoking: [certificate]), to: "bad.pem")
        let demand = { (policy: inout SecurityPolicy) in policy.requiresStapledStatus = true }
        #expect(try await load(stapling, [good], demand).reason == nil)
        #expect(try await load(stapling, [bad], demand).reason == .revoked)
        let outcome = try await load(revoked, [good], demand)
        #expect(outcome.reason == .revoked && outcome.error?.serverTrustFailure?.revocation?.date != nil)
    }

    @Test func `an unreadable file fails before connecting`() async throws {
        let server = try serve()
        let text = try directory.write(Data("text".utf8), to: "text.pem")
        for file in [directory.file("none.pem"), text] {
            let outcome = await Outcome(of: server.url("/", host: "localhost")) {
                $0.securityPolicy.revocationLists = [file]
            }
            #expect(outcome.error?.code == .secureConnectionFailed)
            let error = outcome.error?.userInfo[NSUnderlyingErrorKey] as? TLSConfigurationError
            guard case .revocationLists? = error else { return #expect(Bool(false), "\(outcome)") }
            #expect(outcome.error?.localizedDescription.contains(file.path) == true)
        }
        #expect(server.totalConnectionCount == 0)
    }

    @Test func `expired lists are read again`() async throws {
        let end = Date(timeIntervalSinceNow: 3)
        let file = try write(root.revocationList(), issuer.revocationList(nextUpdate: end))
        let server = try serve()
        server.route("/closing", .text("secret").header("Connection", "close"))
        var configuration = ConnectionConfiguration()
        configuration.securityPolicy = try own(root, [file])
        // Keep the configuration, because it retains the lists.
        let kept = configuration
        #expect(await Outcome(of: server.url("/closing", host: "localhost")) { $0 = kept }.body == "secret")
        try write(root.revocationList(), issuer.revocationList(revoking: [certificate]))
        try await waitUntil("the list's end") { Date() > end.addingTimeInterval(1) }
        let outcome = await Outcome(of: server.url("/closing", host: "localhost")) { $0 = kept }
        #expect(outcome.reason == .revoked, "\(outcome)")
    }

    // MARK: Pins and names

    @Test func `pins without a mode, and the name with a pinned key, are checked in handshakes`() async throws {
        let server = try serve()
        let own = try #require(try Certificate(certificate).publicKeyPin)
        let other = try #require(try Certificate(root.issue(.server("localhost"))).publicKeyPin)
        #expect(try await load(server, []) { $0.publicKeyPins = [other] }.reason == .notPinned)
        #expect(try await load(server, []) { $0.publicKeyPins = [own] }.reason == nil)
        let certificates = try [Certificate(TestCertificate.selfSigned())]
        #expect(try await load(server, []) { $0.pinnedCertificates = certificates }.reason == .notPinned)
        for (validates, reason) in [(true, ServerTrustFailure.Reason.wrongHost), (false, nil)] {
            let outcome = try await load(server, [], host: "127.0.0.1") {
                ($0.pinningMode, $0.publicKeyPins) = (.publicKey, [own])
                ($0.allowInvalidCertificates, $0.validatesDomainName) = (true, validates)
            }
            #expect(outcome.reason == reason)
        }
        // Nothing of this can be checked without TLS.
        let plain = try TestServer()
        let outcome = await Outcome(of: plain.url("/")) { $0.securityPolicy.publicKeyPins = [own] }
        #expect(outcome.error?.code == .appTransportSecurityRequiresSecureConnection)
        #expect(plain.totalConnectionCount == 0)
    }

    @Test func `a wildcard does not match hosts in an excluded subtree`() async throws {
        var profile = TestCertificate.Profile.authority("Constrained")
        profile.nameConstraints = .init(excludedDNSNames: ["evil.example.localhost"])
        let wild = try root.issue(profile).issue(.server("*.example.localhost"))
        let server = try TestServer(tls: TestServer.TLS(wild))
        server.route("/", .text("secret"))
        #expect(try await load(server, [], host: "good.example.localhost").reason == nil)
        #expect(try await load(server, [], host: "evil.example.localhost").reason == .nameConstraints)
    }

    @Test(.enabled(if: OpenSSLServer.isInstalled, "requires \(OpenSSLServer.installHint)"))
    func `lists and pins are enforced for openssl's server`() async throws {
        let files = try certificate.write(to: directory.url, name: "server")
        let rest = try directory.write(Data(issuer.pem.utf8), to: "rest.pem")
        let server = try OpenSSLServer(
            version: .tls13,
            arguments: ["-cert", files.certificate.path, "-key", files.key.path, "-cert_chain", rest.path])
        let url = try #require(URL(string: "https://localhost:\(server.port)/"))
        let good = try write(root.revocationList(), issuer.revocationList(), to: "good.pem")
        let bad = try write(root.revocationList(), issuer.revocationList(revoking: [certificate]), to: "bad.pem")
        let pin = try #require(try Certificate(root.issue(.server("localhost"))).publicKeyPin)
        for (lists, pins, reason) in [
            ([good], [], nil), ([bad], [], ServerTrustFailure.Reason.revoked), ([], [pin], .notPinned),
        ] as [([URL], Set<PublicKeyPin>, ServerTrustFailure.Reason?)] {
            var policy = try own(root, lists)
            policy.publicKeyPins = pins
            let outcome = await Outcome(of: url) { $0.securityPolicy = policy }
            #expect(outcome.isRight(reason), "\(outcome) instead of \(reason as Any)")
        }
        server.stop()
    }
}
