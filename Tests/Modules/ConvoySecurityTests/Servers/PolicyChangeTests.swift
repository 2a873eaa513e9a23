import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Policies and connections. A connection is used only under the policy under which it was made, and no plain-text
/// connection is made to a pinned host.
@Suite struct PolicyChangeTests {
    private let root: TestCertificate
    private let certificate: TestCertificate
    private let server: TestServer
    private var policy: SecurityPolicy {
        get throws {
            var policy = SecurityPolicy()
            policy.certificateAuthorities = .certificates([try Certificate(root)])
            return policy
        }
    }

    init() throws {
        root = try .root()
        certificate = try root.issue(.server("localhost", "a.localhost"))
        server = try TestServer(tls: TestServer.TLS(certificate))
        server.route("/", .text("secret"))
    }

    private func pinned(_ certificate: TestCertificate) throws -> SecurityPolicy {
        var policy = try policy
        policy.pinningMode = .publicKey
        policy.publicKeyPins = [try PublicKeyPin(certificate.publicKeyPin)]
        return policy
    }

    @Test func `a connection is reused only under an equal policy`() async throws {
        let url = server.url("/", host: "localhost")
        let policies = try [policy, policy, pinned(certificate), pinned(certificate), pinned(root), policy]
        for policy in policies {
            #expect(await Outcome(of: url) { $0.securityPolicy = policy }.isRight(nil))
        }
        #expect(server.requests.map(\.connection) == [1, 1, 2, 2, 3, 1])
        let other = try TestCertificate.root()
        #expect(try await Outcome(of: url) { $0.securityPolicy = try pinned(other) }.isRight(.notPinned))
        var untrusting = SecurityPolicy()
        untrusting.certificateAuthorities = .certificates([try Certificate(other)])
        #expect(await Outcome(of: url) { $0.securityPolicy = untrusting }.isRight(.unknownRoot))
        #expect(server.requests.count == policies.count && server.statistics.resumedHandshakeCount == 0)
    }

    @Test func `each operation keeps the policy that its manager had when the operation was created`() async throws {
        let manager = try HTTPRequestOperationManager(
            baseURL: server.url("/", host: "localhost"), securityPolicy: policy)
        let first = HTTPRequestOperation(request: URLRequest(url: server.url("/", host: "localhost")))
        first.connectionConfiguration = manager.connectionConfiguration
        try await first.finished()
        manager.securityPolicy = try pinned(TestCertificate.root())
        #expect(manager.securityPolicy.isPinning)
        let second = HTTPRequestOperation(request: URLRequest(url: server.url("/", host: "localhost")))
        second.connectionConfiguration = manager.connectionConfiguration
        try? await second.finished()
        #expect((second.error as? URLError)?.serverTrustFailure?.reason == .notPinned)
        #expect(first.error == nil && server.requests.count == 1)
    }

    @Test func `a manager cannot be created with a plain-text base URL of a pinned host`() throws {
        let plain = try #require(URL(string: "http://a.test/"))
        var hosts = SecurityPolicy()
        try hosts.setPolicy(pinned(certificate), forHosts: "**.A.test")
        for policy in [try pinned(certificate), hosts] {
            let error = #expect(throws: URLError.self) {
                try HTTPRequestOperationManager(baseURL: plain, securityPolicy: policy)
            }
            #expect(error?.code == .appTransportSecurityRequiresSecureConnection)
        }
        let other = try #require(URL(string: "http://b.test/"))
        _ = try HTTPRequestOperationManager(baseURL: other, securityPolicy: hosts)
    }

    @Test(arguments: ["localhost", "a.localhost", "LOCALHOST", "localhost."])
    func `nothing is sent to a pinned host over plain text`(host: String) async throws {
        let plain = try TestServer()
        plain.route("/", .text("plain"))
        let pinned = try pinned(certificate)
        let url = plain.url("/", host: host)
        for pattern in [nil, "**.localhost"] {
            let outcome = try await Outcome(of: url) {
                if let pattern {
                    try $0.securityPolicy.setPolicy(pinned, forHosts: pattern)
                } else {
                    $0.securityPolicy = pinned
                }
            }
            #expect(outcome.error?.code == .appTransportSecurityRequiresSecureConnection, "\(outcome)")
        }
        #expect(plain.totalConnectionCount == 0)
        // The name with a trailing dot does not belong to this machine.
        guard !host.hasSuffix(".") else { return }
        #expect(try await Outcome(of: url) { try $0.securityPolicy.setPolicy(pinned, forHosts: "a.test") }.isRight(nil))
    }

    @Test func `a redirect to plain text is not followed to a pinned host`() async throws {
        let plain = try TestServer()
        plain.route("/", .text("plain"))
        server.redirect("/down", to: plain.url("/", host: "a.localhost").absoluteString)
        let policy = try pinned(certificate)
        let outcome = await Outcome(of: server.url("/down", host: "localhost")) { $0.securityPolicy = policy }
        #expect(outcome.error?.code == .appTransportSecurityRequiresSecureConnection, "\(outcome)")
        #expect(plain.totalConnectionCount == 0 && server.requests.count == 1)
    }

    @Test func `the new host's policy applies after a redirect`() async throws {
        let other = try TestServer(tls: TestServer.TLS(certificate))
        other.route("/", .text("other"))
        server.redirect("/to", to: other.url("/", host: "a.localhost").absoluteString)
        let load = { (policy: SecurityPolicy) in
            await Outcome(of: server.url("/to", host: "localhost")) { $0.securityPolicy = policy }
        }
        var policy = try policy
        try policy.setPolicy(pinned(TestCertificate.root()), forHosts: "*.localhost")
        let refused = await load(policy)
        #expect(refused.error?.code == .serverCertificateUntrusted && refused.reason == .notPinned, "\(refused)")
        #expect(other.requests.isEmpty && other.statistics.plaintextByteCount == 0)
        try policy.setPolicy(pinned(certificate), forHosts: "*.localhost")
        #expect(await load(policy).body == "other")
    }

    @Test func `unreadable certificate authorities fail before connecting`() async throws {
        let missing = URL(fileURLWithPath: "/nonexistent/ca.pem")
        let outcome = await Outcome(of: server.url("/", host: "localhost")) { $0.certificateAuthorities = missing }
        #expect(outcome.error?.code == .secureConnectionFailed)
        let reason = outcome.error?.userInfo[NSUnderlyingErrorKey] as? TLSConfigurationError
        #expect(reason == .authorities(.unreadable(file: missing.path, reason: "No such file or directory")))
        #expect(server.totalConnectionCount == 0)
    }

    @Test func `concurrent requests are each evaluated by their own policy`() async throws {
        let url = server.url("/", host: "localhost")
        let (good, bad) = (try pinned(certificate), try pinned(TestCertificate.root()))
        let results = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<60 {
                group.addTask {
                    let isGood = number.isMultiple(of: 3)
                    let outcome = await Outcome(of: url) { $0.securityPolicy = isGood ? good : bad }
                    return outcome.isRight(isGood ? nil : .notPinned)
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.allSatisfy { $0 } && server.requests.count == 20)
    }
}
