import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@Suite(.enabled(if: TLSClient.isInstalled, "curl or openssl is not installed"))
struct HandshakeTests {
    private let root: TestCertificate
    private let identity: TestCertificate
    private let client: TLSClient

    init() throws {
        root = try TestCertificate.root()
        identity = try root.issue(.server("localhost", "127.0.0.1"))
        client = try TLSClient(trusting: root)
    }

    private func server(_ change: (inout TestServer.TLS) throws -> Void = { _ in }) throws -> TestServer {
        var tls = TestServer.TLS(identity)
        try change(&tls)
        let server = try TestServer(tls: tls)
        server.route("/", .text("hello"))
        return server
    }

    @Test func `a client that rejects the certificate sends nothing`() throws {
        let stranger = try TestCertificate.root(.authority("Stranger")).issue(.server("localhost"))
        let server = try server { $0.identity = stranger }
        for version in ["-tls1_2", "-tls1_3"] {
            let text = try client.session(server, "/", "-verify_return_error", version)
            #expect(text.contains("certificate verify failed"))
        }
        try server.wait { $0.failedHandshakeCount == 2 && $0.openConnectionCount == 0 }
        #expect(server.handshakeFailures == ["tlsv1 alert unknown ca", "tlsv1 alert unknown ca"])
        #expect(server.statistics.plaintextByteCount == 0 && server.statistics.handshakeCount == 0)
        #expect(server.requests.isEmpty)
        let pin = "sha256//" + stranger.publicKeyPin.dropFirst("sha256/".count)
        let url = server.url("/", host: "localhost").absoluteString
        #expect(try client.curl("-k", "--pinnedpubkey", pin, url).text == "hello")
        let wrongPin = "sha256//" + String(repeating: "A", count: 43) + "="
        #expect(try client.curl("-k", "--pinnedpubkey", wrongPin, url).status == 90)
    }

    @Test(arguments: ["1.2", "1.3"])
    func `the server requires a client certificate from its authority`(version: String) throws {
        let authority = try TestCertificate.root(.authority("Clients"))
        var profile = TestCertificate.Profile.client("Ada Ünïcode")
        profile.organization = "Engines"
        let ada = try authority.issue(.authority("Between")).issue(profile)
        let mallory = try root.issue(.client("mallory"))
        let (certificate, key) = try ada.write(to: client.directory.url, name: "ada")
        let (wrong, wrongKey) = try mallory.write(to: client.directory.url, name: "mallory")
        let server = try server {
            $0.clientCertificates = .required
            $0.clientAuthorities = [authority]
        }
        let url = server.url("/").absoluteString
        func fetch(_ arguments: String...) throws -> ProcessRunner.Result {
            try client.curl(["--tls-max", version] + arguments + [url])
        }
        #expect(try fetch("--cert", certificate.path, "--key", key.path).text == "hello")
        #expect(server.requests.map(\.tls?.clientCertificateSubject) == ["CN=Ada Ünïcode,O=Engines"])
        #expect(server.requests.map(\.tls?.clientCertificate) == [ada.derData])
        #expect(try fetch().status != 0)
        #expect(try fetch("--cert", wrong.path, "--key", wrongKey.path).status != 0)
        try server.wait { $0.failedHandshakeCount == 2 }
        #expect(server.handshakeFailures.first == "peer did not return a certificate")
        #expect(server.handshakeFailures.last?.hasPrefix("certificate verify failed: ") ?? false)
        #expect(server.requests.count == 1)
        #expect(try client.session(server, "/", "-tls1_2").contains("CN=Clients"))
    }

    @Test func `a requested client certificate may be missing`() throws {
        let ada = try TestCertificate.root(.authority("Clients")).issue(.client("ada"))
        let (certificate, key) = try ada.write(to: client.directory.url, name: "ada")
        let server = try server { $0.clientCertificates = .requested }
        let url = server.url("/").absoluteString
        #expect(try client.curl(url).text == "hello")
        #expect(try client.curl("--cert", certificate.path, "--key", key.path, url).text == "hello")
        #expect(server.requests.map(\.tls?.clientCertificateSubject) == [nil, "CN=ada"])
        var tls = TestServer.TLS(identity)
        tls.clientCertificates = .requested
        tls.clientAuthorities = [root]
        try server.setTLS(tls)
        #expect(try client.curl(url).text == "hello")
        #expect(try client.curl("--cert", certificate.path, "--key", key.path, url).status != 0)
    }

    @Test func `the certificate is chosen by the requested name, for any kind of key`() throws {
        var profile = TestCertificate.Profile.server("rsa.test")
        profile.key = .rsa(bits: 2048)
        let rsa = try root.issue(.authority("Between")).issue(profile)
        let other = try root.issue(.server("other.test"))
        let server = try server { $0.identitiesByName = ["RSA.test": rsa, "other.test": other] }
        for (name, subject) in [("rsa.test", "rsa.test"), ("Other.Test", "other.test"), ("x.test", "localhost")] {
            for version in ["-tls1_2", "-tls1_3"] {
                let text = try client.session(server, "/", "-servername", name, version)
                #expect(text.contains("subject=CN=\(subject)\n") && text.contains("Verify return code: 0 (ok)"))
            }
        }
        #expect(server.requests.map(\.tls?.serverName).prefix(3) == ["rsa.test", "rsa.test", "Other.Test"])
        #expect(try client.session(server, "/", "-noservername").contains("subject=CN=localhost\n"))
        #expect(server.requests.last?.tls?.serverName == .some(nil))
    }

    @Test func `the server sends the given chain`() throws {
        let between = try root.issue(.authority("Between"))
        let leaf = try between.issue(.server("localhost", "127.0.0.1"))
        let server = try server { $0.identity = leaf }
        #expect(try client.curl(server.url("/").absoluteString).status == 0)
        var tls = TestServer.TLS(leaf)
        tls.sentChain = []
        try server.setTLS(tls)
        #expect(try client.curl(server.url("/").absoluteString).status == 60)
        tls.sentChain = [root, between, identity]
        try server.setTLS(tls)
        #expect(try client.curl(server.url("/").absoluteString).status == 0)
        let text = try client.session(server, "/", "-showcerts")
        #expect(text.components(separatedBy: "BEGIN CERTIFICATE").count == 5)
    }

    @Test func `the best common application protocol is negotiated`() throws {
        let server = try server { $0.alpnProtocols = ["h2", "http/1.1"] }
        #expect(try client.session(server, "/", "-alpn", "http/1.1,h2").contains("ALPN protocol: h2"))
        #expect(try client.session(server, "/", "-alpn", "x,http/1.1").contains("ALPN protocol: http/1.1"))
        #expect(try client.session(server, "/", "-alpn", "spdy").contains("no application protocol"))
        #expect(try client.session(server).contains("No ALPN negotiated"))
        #expect(server.requests.map(\.tls?.alpnProtocol) == ["h2", "http/1.1", nil])
        var tls = TestServer.TLS(identity)
        tls.alpnProtocols = nil
        try server.setTLS(tls)
        #expect(try client.session(server, "/", "-alpn", "http/1.1").contains("No ALPN negotiated"))
    }

    @Test func `only the configured versions and ciphers are used`() throws {
        let server = try server { ($0.minimumVersion, $0.maximumVersion) = (.tls10, .tls11) }
        let weak = ["-cipher", "ALL:@SECLEVEL=0"]
        #expect(try client.session(server, "/", "-tls1", weak[0], weak[1]).contains("hello"))
        #expect(try client.session(server, "/", "-tls1_1", weak[0], weak[1]).contains("hello"))
        #expect(server.requests.map(\.tls?.version) == ["TLSv1", "TLSv1.1"])
        #expect(try client.curl("--tlsv1.2", server.url("/").absoluteString).status == 35)
        try server.wait { $0.failedHandshakeCount == 1 }
        #expect(server.handshakeFailures == ["unsupported protocol"])
        var tls = TestServer.TLS(identity)
        tls.maximumVersion = .tls12
        tls.cipherList = "ECDHE-ECDSA-CHACHA20-POLY1305"
        try server.setTLS(tls)
        #expect(try client.curl(server.url("/").absoluteString).status == 0)
        #expect(server.requests.last?.tls?.cipher == "ECDHE-ECDSA-CHACHA20-POLY1305")
        #expect(try client.session(server, "/", "-tls1_3").contains("alert protocol version"))
        #expect(try client.session(server, "/", "-cipher", "AES128-SHA").contains("handshake failure"))
        #expect(server.handshakeFailures.last == "no shared cipher")
    }

    @Test func `weak keys, old digests and expired certificates can be used`() throws {
        var authority = TestCertificate.Profile.authority("Weak")
        authority.key = .rsa(bits: 1024)
        let weak = try TestCertificate.root(authority)
        for digest in [TestCertificate.Profile.Digest.sha1, .md5] {
            var profile = TestCertificate.Profile.server("localhost")
            profile.key = .rsa(bits: 1024)
            profile.digest = digest
            profile.notAfter = Date(timeIntervalSinceNow: -60)
            let leaf = try weak.issue(profile)
            let server = try server { $0.identity = leaf }
            for version in ["-tls1_2", "-tls1_3"] {
                let text = try client.session(server, "/", version, "-cipher", "DEFAULT:@SECLEVEL=0")
                #expect(text.contains("hello") && text.contains("subject=CN=localhost"))
            }
        }
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func `an OCSP response is stapled if the client requests one`(version: String) throws {
        let response = try identity.ocspResponse(status: .revoked)
        let server = try server { $0.ocspResponse = response }
        let text = try client.session(server, "/", "-status", version)
        #expect(text.contains("OCSP Response Status: successful") && text.contains("Cert Status: revoked"))
        #expect(try !client.session(server, "/", version).contains("OCSP Response"))
        try server.setTLS(TestServer.TLS(identity))
        #expect(try !client.session(server, "/", "-status", version).contains("OCSP Response Status"))
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func `sessions are resumed with the client certificate unless disabled`(version: String) throws {
        let file = client.directory.file("session").path
        let (certificate, key) = try root.issue(.client("ada")).write(to: client.directory.url, name: "ada")
        let server = try server {
            $0.clientCertificates = .required
            $0.clientAuthorities = [root]
        }
        _ = try client.session(
            server, "/", version, "-sess_out", file, "-cert", certificate.path, "-key", key.path)
        #expect(try client.session(server, "/", version, "-sess_in", file).contains("\nReused, TLSv1."))
        #expect(server.requests.map(\.tls?.isResumed) == [false, true])
        #expect(server.requests.map(\.tls?.clientCertificateSubject) == ["CN=ada", "CN=ada"])
        #expect(server.statistics.resumedHandshakeCount == 1 && server.statistics.handshakeCount == 2)
        var tls = TestServer.TLS(identity)
        tls.resumesSessions = false
        try server.setTLS(tls)
        _ = try client.session(server, "/", version, "-sess_out", client.directory.file("none").path)
        #expect(try !client.session(server, "/", version, "-sess_in", file).contains("\nReused, TLSv1."))
        #expect(!FileManager.default.fileExists(atPath: client.directory.file("none").path) || version == "-tls1_2")
        #expect(server.statistics.resumedHandshakeCount == 1)
    }

    @Test func `plain text counts as a failed handshake`() throws {
        let server = try server()
        let plain = try RawClient(port: server.port)
        try plain.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try !String(decoding: plain.readToEnd(), as: UTF8.self).contains("HTTP"))
        plain.close()
        let garbage = try RawClient(port: server.port)
        try garbage.send(Data(repeating: 0xFF, count: 1000))
        _ = try? garbage.readToEnd()
        garbage.close()
        try RawClient(port: server.port).close()
        try server.wait { $0.failedHandshakeCount == 3 && $0.openConnectionCount == 0 }
        #expect(server.handshakeFailures.first == "http request")
        #expect(server.handshakeFailures.contains("the client closed the connection"))
        #expect(server.statistics.malformedRequestCount == 0 && server.requests.isEmpty)
    }

    @Test func `the handshake time and the number of recorded failures are limited`() throws {
        var configuration = TestServer.Configuration()
        configuration.handshakeTimeout = 0.05
        configuration.recordingLimit = 1
        let server = try TestServer(tls: TestServer.TLS(identity), configuration)
        server.route("/", .text("slow").delayed(0.2))
        try RawClient(port: server.port).close()
        try server.wait { $0.failedHandshakeCount == 1 }
        let silent = try RawClient(port: server.port)
        #expect(try silent.readToEnd().isEmpty)
        #expect(server.handshakeFailures == ["the handshake timed out"])
        configuration.handshakeTimeout = 10
        #expect(try client.curl(server.url("/").absoluteString).status == 0)
    }

    @Test func `a server can stop and drop connections during handshakes`() throws {
        let server = try server()
        let clients = try (0..<20).map { _ in try RawClient(port: server.port) }
        try server.wait { $0.openConnectionCount == 20 }
        server.dropConnections()
        for client in clients { #expect(try client.readToEnd().isEmpty) }
        let more = try (0..<20).map { _ in try RawClient(port: server.port) }
        try server.wait { $0.totalConnectionCount == 40 }
        server.stop()
        for client in more { #expect(try client.readToEnd().isEmpty) }
        #expect(server.statistics.openConnectionCount == 0 && server.statistics.failedHandshakeCount == 0)
    }

    @Test func `TLS settings can change while running, and invalid ones are rejected`() throws {
        let server = try server()
        #expect(try client.curl(server.url("/").absoluteString).status == 0)
        var tls = TestServer.TLS(try identity.replacingKey())
        try server.setTLS(tls)
        let pin = "sha256//" + tls.identity.publicKeyPin.dropFirst("sha256/".count)
        #expect(try client.curl("--pinnedpubkey", pin, server.url("/").absoluteString).status == 0)
        try server.setTLS(nil)
        #expect(server.url.scheme == "http")
        #expect(try RawClient(port: server.port).exchange("GET", "/").text == "hello")
        try server.setTLS(tls)
        #expect(try client.curl("--pinnedpubkey", pin, server.url("/").absoluteString).status == 0)
        tls.cipherList = "NONSENSE"
        #expect(throws: TestServerError.self) { try server.setTLS(tls) }
        tls.cipherList = "DEFAULT"
        tls.alpnProtocols = [""]
        #expect(throws: TestServerError.self) { try server.setTLS(tls) }
        tls.alpnProtocols = nil
        tls.minimumVersion = .tls13
        tls.maximumVersion = .tls12
        #expect(throws: TestServerError.unusableTLS("the minimum version exceeds the maximum version")) {
            try server.setTLS(tls)
        }
        #expect(throws: TestServerError.self) { try TestServer(tls: tls) }
        #expect(try client.curl("--pinnedpubkey", pin, server.url("/").absoluteString).status == 0)
        #expect(server.statistics.failedHandshakeCount == 0)
    }
}
