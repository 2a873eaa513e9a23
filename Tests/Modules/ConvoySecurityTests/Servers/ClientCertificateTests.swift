import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import Testing

/// Servers that request a client certificate.
@Suite struct ClientCertificateTests {
    private let root: TestCertificate
    private let server: TestCertificate
    private let clients: TestCertificate
    private let ada: TestCertificate
    private let stranger: TestCertificate

    init() throws {
        root = try .root()
        server = try root.issue(.server("localhost", "127.0.0.1"))
        clients = try .root(.authority("Clients"))
        ada = try clients.issue(.authority("Department")).issue(.client("ada"))
        stranger = try TestCertificate.root(.authority("Elsewhere")).issue(.client("mallory"))
    }

    private func identity(_ certificate: TestCertificate) -> ClientIdentity {
        ClientIdentity(certificatePEM: Data((certificate.chainPEM + certificate.privateKeyPEM).utf8))
    }

    private func load(_ url: URL, _ identity: ClientIdentity?) async throws -> Outcome {
        try await Outcome(of: url) {
            $0.securityPolicy.certificateAuthorities = .certificates([try Certificate(root)])
            $0.clientIdentity = identity
        }
    }

    private func testServer(
        _ demand: TestServer.TLS.ClientCertificates, _ version: TestServer.TLS.Version
    ) throws -> TestServer {
        var tls = TestServer.TLS(server)
        (tls.minimumVersion, tls.maximumVersion) = (version, version)
        (tls.clientCertificates, tls.clientAuthorities) = (demand, [clients])
        let server = try TestServer(tls: tls)
        server.route("/", .text("secret"))
        return server
    }

    @Test(arguments: [TestServer.TLS.Version.tls12, .tls13])
    func `the right certificate is accepted, and the error describes any other`(version: TestServer.TLS.Version) async throws
    {
        let server = try testServer(.required, version)
        let url = server.url("/", host: "localhost")
        #expect(try await load(url, identity(ada)).status == 200)
        #expect(server.requests.count == 1 && server.requests.first?.tls?.clientCertificate == ada.derData)
        let none = try await load(url, nil)
        #expect(none.error?.code == .clientCertificateRequired, "\(none)")
        let wrong = try await load(url, identity(stranger))
        #expect(wrong.error?.code == .clientCertificateRejected, "\(wrong)")
        var profile = TestCertificate.Profile.client("ada")
        profile.notAfter = Date(timeIntervalSinceNow: -60)
        let expired = try await load(url, identity(clients.issue(profile)))
        #expect(expired.error?.code == .clientCertificateRejected, "\(expired)")
        #expect(server.requests.count == 1)
        // A connection made with one identity is not used for another identity, or without one.
        #expect(try await load(url, identity(ada)).status == 200)
        #expect(server.requests.map(\.connection).count == 2 && Set(server.requests.map(\.connection)).count == 2)
    }

    @Test(arguments: [TestServer.TLS.Version.tls12, .tls13])
    func `a server that does not require a certificate gets none or the right one`(
        version: TestServer.TLS.Version
    ) async throws {
        let server = try testServer(.requested, version)
        let url = server.url("/", host: "localhost")
        #expect(try await load(url, nil).status == 200)
        #expect(try await load(url, identity(ada)).status == 200)
        #expect(server.requests.map { $0.tls?.clientCertificate } == [nil, ada.derData])
    }

    @Test func `every form of an identity works, and an invalid one fails before connecting`() async throws {
        let server = try testServer(.required, .tls13)
        let url = server.url("/", host: "localhost")
        let store = try ada.pkcs12(passphrase: "x")
        let encrypted = Data(try ada.privateKeyPEM(passphrase: "x").utf8)
        let chain = Data(ada.chainPEM.utf8)
        #expect(try await load(url, ClientIdentity(pkcs12Data: store) { "x" }).status == 200)
        #expect(try await load(url, ClientIdentity(certificatePEM: chain, keyPEM: encrypted) { "x" }).status == 200)
        let connections = server.totalConnectionCount
        let bad: [(ClientIdentity, CertificateError)] = [
            (ClientIdentity(pkcs12Data: store) { "y" }, .wrongPassphrase(file: "")),
            (ClientIdentity(certificatePEM: chain, keyPEM: encrypted), .wrongPassphrase(file: "")),
            (ClientIdentity(certificatePEM: chain), .noKey(file: "")),
            (
                ClientIdentity(certificatePEM: chain, keyPEM: Data(stranger.privateKeyPEM.utf8)),
                .keyOfAnotherCertificate
            ),
        ]
        for (identity, expected) in bad {
            let error = try await load(url, identity).error
            #expect(error?.code == .secureConnectionFailed)
            #expect(error?.userInfo[NSUnderlyingErrorKey] as? TLSConfigurationError == .identity(expected))
        }
        #expect(server.totalConnectionCount == connections)
    }

    @Test func `a handshake that fails before a certificate request does not report a rejected certificate`() async throws {
        var tls = TestServer.TLS(server)
        tls.maximumVersion = .tls12
        tls.cipherList = "ECDHE-ECDSA-AES128-GCM-SHA256"
        let server = try TestServer(tls: tls)
        let outcome = try await Outcome(of: server.url("/", host: "localhost")) {
            $0.securityPolicy.certificateAuthorities = .certificates([try Certificate(root)])
            $0.clientIdentity = identity(ada)
            $0.cipherSuites = ["ECDHE-ECDSA-AES256-GCM-SHA384"]
        }
        #expect(outcome.error?.code == .secureConnectionFailed, "\(outcome)")
    }

    @Test func `an identity that OpenSSL cannot use is reported as such`() async throws {
        let server = try testServer(.required, .tls12)
        var profile = TestCertificate.Profile.client("ada")
        profile.key = .rsa(bits: 1024)
        let weak = try await load(server.url("/", host: "localhost"), identity(clients.issue(profile)))
        #expect(weak.error?.code == .secureConnectionFailed, "\(weak)")
        let reason = weak.error?.userInfo[NSUnderlyingErrorKey] as? TLSConfigurationError
        guard case .refused(let text)? = reason else { return #expect(Bool(false), "\(reason as Any)") }
        #expect(text.contains("too small") && server.totalConnectionCount == 0)
    }

    @Test(.enabled(if: Nginx.isInstalled, "requires \(Nginx.installHint)"), arguments: ["TLSv1.2", "TLSv1.3"])
    func `nginx accepts the right certificate and answers others with 400`(version: String) async throws {
        let directory = try TemporaryDirectory()
        let files = try server.write(to: directory.url, name: "server")
        var site = SecureNginx.Site(certificate: files.certificate, key: files.key)
        site.clientAuthority = try directory.write(Data(clients.pem.utf8), to: "clients.pem")
        site.protocols = version
        let nginx = try SecureNginx([site])
        let url = try #require(URL(string: "https://localhost:\(nginx.ports[0])/"))
        let good = try await load(url, identity(ada))
        #expect(good.status == 200 && good.body == "hello CN=ada", "\(good) \(good.body)")
        for wrong in [nil, identity(stranger)] {
            let outcome = try await load(url, wrong)
            #expect(outcome.status == 400 && outcome.body.contains("SSL"), "\(outcome) \(outcome.body)")
        }
    }

    @Test(
        .enabled(if: OpenSSLServer.isInstalled, "requires \(OpenSSLServer.installHint)"),
        arguments: [OpenSSLServer.Version.tls12, .tls13])
    func `s_server accepts the right certificate and ends the handshake with others`(
        version: OpenSSLServer.Version
    ) async throws {
        let server = try OpenSSLServer(version: version, requiresClientCertificate: true)
        let own = server.certificates
        let load = { (identity: ClientIdentity?) in
            await Outcome(of: server.url) {
                $0.certificateAuthorities = own.certificateAuthority
                $0.clientIdentity = identity
            }
        }
        let right = ClientIdentity(certificate: own.clientCertificate, key: own.clientKey)
        #expect(await load(right).status == 200)
        let none = await load(nil)
        #expect(none.error?.code == .clientCertificateRequired, "\(none)")
        let wrong = await load(identity(stranger))
        #expect(wrong.error?.code == .clientCertificateRejected, "\(wrong)")
    }
}
