import ConvoySecurity
import ConvoyTestServer
import ConvoyTransport
import Foundation
import Testing

/// TLS versions and cipher suites.
@Suite struct VersionTests {
    private let certificate: TestCertificate

    init() throws { certificate = try TestCertificate.root().issue(.server("localhost")) }

    private func load(
        _ minimum: TestServer.TLS.Version = .tls12, _ maximum: TestServer.TLS.Version = .tls13,
        _ configure: (inout ConnectionConfiguration) throws -> Void
    ) async throws -> (outcome: Outcome, version: String?, cipher: String?) {
        var tls = TestServer.TLS(certificate)
        (tls.minimumVersion, tls.maximumVersion) = (minimum, maximum)
        tls.cipherList = "ALL:eNULL:aNULL:@SECLEVEL=0"
        let server = try TestServer(tls: tls)
        server.route("/", .text("secret"))
        let outcome = try await Outcome(of: server.url("/", host: "localhost")) {
            $0.securityPolicy.certificateAuthorities = .certificates([try Certificate(certificate.root)])
            try configure(&$0)
        }
        #expect((outcome.error == nil) == (server.requests.count == 1))
        #expect(outcome.error == nil || server.statistics.plaintextByteCount == 0)
        return (outcome, server.requests.first?.tls?.version, server.requests.first?.tls?.cipher)
    }

    private func settingError(
        _ configure: (inout ConnectionConfiguration) -> Void
    ) async throws -> TLSConfigurationError? {
        let error = try await load(.tls12, .tls13, configure).outcome.error
        #expect(error?.code == .secureConnectionFailed)
        return error?.userInfo[NSUnderlyingErrorKey] as? TLSConfigurationError
    }

    @Test func `the newest common version is negotiated`() async throws {
        #expect(try await load { _ in }.version == "TLSv1.3")
        #expect(try await load(.tls12, .tls12) { _ in }.version == "TLSv1.2")
        #expect(try await load { $0.maximumTLSVersion = .tls12 }.version == "TLSv1.2")
        #expect(try await load { $0.minimumTLSVersion = .tls13 }.version == "TLSv1.3")
    }

    @Test func `nothing is sent if client and server share no TLS version`() async throws {
        #expect(try await load(.tls10, .tls11) { _ in }.outcome.error?.code == .secureConnectionFailed)
        #expect(
            try await load(.tls12, .tls12) { $0.minimumTLSVersion = .tls13 }.outcome.error?.code
                == .secureConnectionFailed)
        #expect(
            try await load(.tls13, .tls13) { $0.maximumTLSVersion = .tls12 }.outcome.error?.code
                == .secureConnectionFailed)
    }

    @Test func `only the specified cipher suites are offered, and only versions that have one`() async throws {
        let old = "ECDHE-ECDSA-AES128-GCM-SHA256"
        let new = "TLS_AES_128_GCM_SHA256"
        #expect(try await load { $0.cipherSuites = [old, new] }.cipher == new)
        #expect(try await load { $0.cipherSuites = [old] }.cipher == old)
        #expect(try await load(.tls12, .tls12) { $0.cipherSuites = [old, new] }.cipher == old)
        #expect(
            try await load(.tls12, .tls12) { $0.cipherSuites = [new] }.outcome.error?.code == .secureConnectionFailed)
        #expect(
            try await load(.tls13, .tls13) { $0.cipherSuites = [old] }.outcome.error?.code == .secureConnectionFailed)
    }

    @Test(arguments: [
        "", "x", "ALL", "aNULL", "eNULL", "NO-SUCH-SUITE", "DEFAULT:@SECLEVEL=0", "@SECLEVEL=0", "ALL:@SECLEVEL=0",
        "AES128-SHA:@SECLEVEL=0", "-ALL", "+ALL", "TLS_",
        "TLS_X",
        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256\0",
        "ecdhe-ecdsa-aes128-gcm-sha256",
    ])
    func `an unknown cipher suite is an error before connecting`(name: String) async throws {
        let error = try await settingError { $0.cipherSuites = ["ECDHE-ECDSA-AES128-GCM-SHA256", name] }
        #expect(error == .unknownCipherSuite(name))
    }

    @Test(arguments: [
        "NULL-SHA256", "ECDHE-ECDSA-NULL-SHA", "ADH-AES256-GCM-SHA384", "AECDH-AES256-SHA", "AECDH-NULL-SHA",
    ])
    func `a suite without encryption or certificates is never used`(name: String) async throws {
        let outcome = try await load(.tls12, .tls12) { $0.cipherSuites = [name] }.outcome
        #expect(outcome.error?.code == .secureConnectionFailed, "\(outcome)")
    }

    @Test func `settings that exclude all versions are an error before connecting`() async throws {
        let error = try await settingError { ($0.minimumTLSVersion, $0.maximumTLSVersion) = (.tls13, .tls12) }
        #expect(error == .noVersion)
        let other = try await settingError {
            ($0.minimumTLSVersion, $0.cipherSuites) = (.tls13, ["ECDHE-ECDSA-AES128-GCM-SHA256"])
        }
        #expect(other == .noVersion)
    }
}
