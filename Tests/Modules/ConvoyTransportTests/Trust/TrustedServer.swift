import ConvoySecurity
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A TLS server with its own authority, and policies for its clients.
final class TrustedServer: Sendable {
    let root: TestCertificate
    let identity: TestCertificate
    let server: TestServer
    let thread = NetworkThread()

    init(hosts: String..., change: (inout TestServer.TLS) throws -> Void = { _ in }) throws {
        root = try TestCertificate.root(.authority("Root \(UUID())"))
        identity = try root.issue(.authority("Between")).issue(.server(hosts.isEmpty ? ["localhost", "127.0.0.1"] : hosts))
        var tls = TestServer.TLS(identity)
        try change(&tls)
        server = try TestServer(tls: tls)
        server.route("/", .text("hello"))
    }

    var url: URL { server.url("/", host: "localhost") }

    /// Returns a policy that trusts the server's authority.
    func policy(_ change: (inout SecurityPolicy) throws -> Void = { _ in }) throws -> SecurityPolicy {
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
        try change(&policy)
        return policy
    }

    /// A policy that trusts every server.
    static var lax: SecurityPolicy {
        var policy = SecurityPolicy()
        policy.allowInvalidCertificates = true
        policy.validatesDomainName = false
        return policy
    }

    /// Returns a policy with a pin that no key matches.
    func pinnedElsewhere() throws -> SecurityPolicy {
        try policy {
            $0.pinningMode = .publicKey
            $0.publicKeyPins = [try PublicKeyPin("sha256/\(Data(repeating: 7, count: 32).base64EncodedString())")]
        }
    }

    func load(
        _ policy: SecurityPolicy, from url: URL? = nil, _ change: (inout ConnectionConfiguration) -> Void = { _ in }
    ) -> Collector.Heard? {
        var configuration = ConnectionConfiguration()
        configuration.securityPolicy = policy
        change(&configuration)
        return ConvoyTransportTests.load(URLRequest(url: url ?? self.url), configuration: configuration, thread: thread)
    }
}

extension Collector.Heard {
    /// The reason why the server was not trusted.
    var refusal: ServerTrustFailure.Reason? { error?.serverTrustFailure?.reason }

    /// The error in the TLS settings.
    var configurationError: TLSConfigurationError? { error?.userInfo[NSUnderlyingErrorKey] as? TLSConfigurationError }
}
