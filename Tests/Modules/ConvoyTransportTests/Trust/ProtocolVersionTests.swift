import ConvoySecurity
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// The TLS versions and cipher suites that a client offers.
@Suite struct ProtocolVersionTests {
    @Test(
        arguments: [
            (["TLS_AES_128_GCM_SHA256"], TLSVersion.tls12, nil, "TLSv1.3 TLS_AES_128_GCM_SHA256"),
            (["ECDHE-ECDSA-AES128-GCM-SHA256"], .tls12, nil, "TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256"),
            (
                ["TLS_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"], .tls12, .tls12,
                "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"
            ),
            ([], .tls13, nil, "TLSv1.3 TLS_AES_256_GCM_SHA384"),
            ([], .tls12, .tls12, "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"),
        ] as [([String], TLSVersion, TLSVersion?, String)])
    func `the configured versions and cipher suites are used`(
        suites: [String], minimum: TLSVersion, maximum: TLSVersion?, expected: String
    ) throws {
        let trusted = try TrustedServer()
        let heard = trusted.load(try trusted.policy()) {
            $0.cipherSuites = suites
            $0.minimumTLSVersion = minimum
            $0.maximumTLSVersion = maximum
        }
        #expect(heard?.text == "hello", "\(heard?.ends ?? [])")
        let tls = trusted.server.requests.first?.tls
        #expect("\(tls?.version ?? "") \(tls?.cipher ?? "")" == expected)
    }

    @Test(arguments: [TestServer.TLS.Version.tls10, .tls11])
    func `TLS versions below 1.2 are never used`(version: TestServer.TLS.Version) throws {
        let trusted = try TrustedServer {
            $0.minimumVersion = version
            $0.maximumVersion = version
        }
        let heard = trusted.load(TrustedServer.lax)
        #expect(heard?.error?.code == .secureConnectionFailed, "\(heard?.ends ?? [])")
        #expect(trusted.server.statistics.handshakeCount == 0)
    }
}
