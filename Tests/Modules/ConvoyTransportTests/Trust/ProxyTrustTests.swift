import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyTransport

/// TLS with the proxy itself, and through it with the server. The tests use XCTest, which runs them serially, because
/// they share the environment.
final class ProxyTrustTests: XCTestCase {
    /// A TLS proxy in front of a TLS server.
    private struct Setup {
        let trusted: TrustedServer
        let root: TestCertificate
        let connector: ConnectProxy
        let terminator: TLSTerminator

        var rootOfProxy: SecurityPolicy {
            get throws {
                var policy = SecurityPolicy()
                policy.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
                return policy
            }
        }

        func stop() {
            connector.stop()
            terminator.stop()
        }
    }

    private func makeSetup(
        proxyNames: [String] = ["localhost", "127.0.0.1"], profile: TestCertificate.Profile? = nil
    ) throws -> Setup {
        guard TLSTerminator.isInstalled else { throw XCTSkip("needs \(TLSTerminator.installHint)") }
        let trusted = try TrustedServer { $0.clientCertificates = .requested }
        let root = try TestCertificate.root(.authority("Proxy root"))
        let identity = try root.issue(profile ?? .server(proxyNames))
        let connector = try ConnectProxy(.tunnels(to: trusted.server.port))
        let terminator = try TLSTerminator(
            before: connector.port, certificate: identity.chainPEM, key: identity.privateKeyPEM,
            askingForClientsOf: trusted.root.pem)
        return Setup(trusted: trusted, root: root, connector: connector, terminator: terminator)
    }

    private func load(
        _ setup: Setup, proxyHost: String = "localhost", scheme: String = "https",
        _ change: (inout ConnectionConfiguration) throws -> Void
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        try change(&configuration)
        let proxy = "https://\(proxyHost):\(setup.terminator.port)"
        let url = try XCTUnwrap(URL(string: "\(scheme)://localhost:\(setup.trusted.server.port)/"))
        return try withEnvironment(["https_proxy": proxy, "http_proxy": proxy]) {
            try XCTUnwrap(
                ConvoyTransportTests.load(
                    URLRequest(url: url), configuration: configuration, thread: setup.trusted.thread))
        }
    }

    func testEachOfTheTwoHandshakesHasItsOwnPolicy() throws {
        for proxyHost in ["localhost", "127.0.0.1"] {
            let setup = try makeSetup()
            defer { setup.stop() }
            // The proxy is not trusted, so neither CONNECT nor anything else is sent to it.
            let stranger = try load(setup, proxyHost: proxyHost) { $0.securityPolicy = try setup.trusted.policy() }
            XCTAssertEqual(stranger.refusal, .unknownRoot, "\(stranger.ends)")
            XCTAssertEqual(setup.connector.heads, [])
            // The server's authority is not accepted for the proxy, or vice versa.
            let swapped = try load(setup, proxyHost: proxyHost) {
                $0.securityPolicy = try setup.rootOfProxy
                $0.proxySecurityPolicy = try setup.rootOfProxy
            }
            XCTAssertEqual(swapped.refusal, .unknownRoot, "\(swapped.ends)")
            XCTAssertEqual(setup.connector.heads.count, 1)
            XCTAssertEqual(setup.trusted.server.statistics.plaintextByteCount, 0)
            let right = try load(setup, proxyHost: proxyHost) {
                $0.securityPolicy = try setup.trusted.policy()
                $0.proxySecurityPolicy = try setup.rootOfProxy
            }
            XCTAssertEqual(right.text, "hello", "\(right.ends)")
            // The pins of the server do not apply to the proxy.
            let pinned = try load(setup, proxyHost: proxyHost) {
                $0.securityPolicy = try setup.trusted.policy {
                    $0.pinningMode = .publicKey
                    $0.publicKeyPins = [try PublicKeyPin(setup.trusted.identity.publicKeyPin)]
                }
                $0.proxySecurityPolicy = try setup.rootOfProxy
            }
            XCTAssertEqual(pinned.text, "hello", "\(pinned.ends)")
            // A proxy that impersonates the server does not have the pinned key.
            let wrong = try load(setup, proxyHost: proxyHost) {
                $0.securityPolicy = try setup.trusted.pinnedElsewhere()
                $0.proxySecurityPolicy = try setup.rootOfProxy
            }
            XCTAssertEqual(wrong.refusal, .notPinned, "\(wrong.ends)")
            XCTAssertEqual(setup.trusted.server.requests.count, 2)
        }
    }

    func testAConnectionThroughAProxyIsNotUsedUnderAStricterPolicy() throws {
        let setup = try makeSetup()
        defer { setup.stop() }
        func attempt(_ policy: SecurityPolicy, _ proxyPolicy: SecurityPolicy) throws -> Collector.Heard {
            try load(setup) {
                $0.securityPolicy = policy
                $0.proxySecurityPolicy = proxyPolicy
            }
        }
        let (good, proxy) = (try setup.trusted.policy(), try setup.rootOfProxy)
        XCTAssertEqual(try attempt(TrustedServer.lax, TrustedServer.lax).text, "hello")
        XCTAssertEqual(try attempt(TrustedServer.lax, .default).refusal, .unknownRoot)
        XCTAssertEqual(try attempt(.default, TrustedServer.lax).refusal, .unknownRoot)
        XCTAssertEqual(try attempt(good, proxy).text, "hello")
        XCTAssertEqual(try attempt(good, proxy).text, "hello")
        XCTAssertEqual(setup.trusted.server.statistics.handshakeCount, 2)
    }

    func testTheClientsCertificateIsForTheServerOnly() throws {
        let setup = try makeSetup()
        defer { setup.stop() }
        let ada = try setup.trusted.root.issue(.client("ada"))
        let heard = try load(setup) {
            $0.securityPolicy = try setup.trusted.policy()
            $0.proxySecurityPolicy = try setup.rootOfProxy
            $0.clientIdentity = ClientIdentity(certificatePEM: Data((ada.chainPEM + ada.privateKeyPEM).utf8))
        }
        XCTAssertEqual(heard.text, "hello", "\(heard.ends)")
        XCTAssertEqual(setup.trusted.server.requests.first?.tls?.clientCertificateSubject, "CN=ada")
        XCTAssertEqual(setup.terminator.handshakeCount, 1)
        XCTAssertEqual(setup.terminator.clientCertificateCount, 0)
    }

    func testTheNameOfTheProxyIsChecked() throws {
        var commonNameOnly = TestCertificate.Profile.server("elsewhere.test")
        commonNameOnly.omitsSubjectAlternativeNames = true
        for (names, host, isRight) in [
            (["localhost"], "localhost", true), (["localhost"], "127.0.0.1", false), (["127.0.0.1"], "127.0.0.1", true),
            (["elsewhere.test"], "localhost", false), (["127.0.0.1"], "localhost", false),
        ] {
            let setup = try makeSetup(proxyNames: names)
            defer { setup.stop() }
            let heard = try load(setup, proxyHost: host) {
                $0.securityPolicy = try setup.trusted.policy()
                $0.proxySecurityPolicy = try setup.rootOfProxy
            }
            XCTAssertEqual(heard.isFinished, isRight, "\(names) \(host): \(heard.ends)")
            if !isRight {
                XCTAssertEqual(heard.error?.code, .serverCertificateUntrusted, "\(names) \(host): \(heard.ends)")
                XCTAssertEqual(setup.connector.heads, [], "\(names) \(host)")
            }
        }
        for host in ["localhost", "127.0.0.1"] {
            var profile = commonNameOnly
            profile.commonName = host
            let setup = try makeSetup(profile: profile)
            defer { setup.stop() }
            let heard = try load(setup, proxyHost: host) { $0.proxySecurityPolicy = try setup.rootOfProxy }
            XCTAssertEqual(heard.refusal, .wrongHost, "\(host): \(heard.ends)")
            XCTAssertEqual(setup.connector.heads, [])
        }
    }

    /// The proxy receives the request in plain text, so it must be trusted first.
    func testAProxyForPlainTextIsTrustedFirst() throws {
        guard TLSTerminator.isInstalled else { throw XCTSkip("needs \(TLSTerminator.installHint)") }
        let origin = try TestServer()
        origin.route("/", .text("hello"))
        let root = try TestCertificate.root()
        let identity = try root.issue(.server("localhost"))
        let terminator = try TLSTerminator(
            before: origin.port, certificate: identity.chainPEM, key: identity.privateKeyPEM)
        defer { terminator.stop() }
        let thread = NetworkThread()
        func attempt(_ policy: SecurityPolicy) throws -> Collector.Heard {
            var configuration = ConnectionConfiguration()
            configuration.proxySecurityPolicy = policy
            return try withEnvironment(["http_proxy": "https://localhost:\(terminator.port)"]) {
                try XCTUnwrap(
                    ConvoyTransportTests.load(
                        URLRequest(url: origin.url("/")), configuration: configuration, thread: thread))
            }
        }
        XCTAssertEqual(try attempt(.default).refusal, .unknownRoot)
        XCTAssertEqual(origin.requests.count, 0)
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
        // The test server responds with 404 to requests in proxy form, but has received them.
        XCTAssertTrue(try attempt(policy).isFinished)
        XCTAssertEqual(origin.statistics.requestCount, 1)
        XCTAssertEqual(try attempt(.default).refusal, .unknownRoot)
        XCTAssertEqual(origin.statistics.requestCount, 1)
    }
}
