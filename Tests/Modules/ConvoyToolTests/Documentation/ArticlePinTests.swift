// A whole file of the article about trust; see ArticleCode.swift.
// Article: Trust
import Convoy
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@Suite struct PinTests {
    private let root: TestCertificate
    private let present: TestCertificate
    private let next: TestCertificate
    private var policy: SecurityPolicy

    init() throws {
        root = try TestCertificate.root()
        present = try root.issue(.server("localhost"))
        next = try present.replacingKey()  // the same certificate, for another key
        policy = try SecurityPolicy(publicKeyPins: [present.publicKeyPin], backupPins: [next.publicKeyPin])
        policy.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
    }

    private func serve(_ certificate: TestCertificate) throws -> (TestServer, HTTPRequestOperationManager) {
        let server = try TestServer(tls: TestServer.TLS(certificate))
        server.route("/hello", .text("hello"))
        let url = server.url("/", host: "localhost")
        return (server, try HTTPRequestOperationManager(baseURL: url, securityPolicy: policy))
    }

    @Test func `a server is trusted with the pinned key, a renewed certificate or the backup key`() async throws {
        for certificate in [present, try present.reissued(), next] {
            let (server, manager) = try serve(certificate)
            #expect(try await manager.get("hello", as: String.self) == "hello")
            #expect(server.requests.count == 1)
        }
    }

    @Test func `a server with another key receives nothing, though its certificate is valid`() async throws {
        let (server, manager) = try serve(present.replacingKey())
        let error = await #expect(throws: URLError.self) { try await manager.get("hello", as: String.self) }
        #expect(error?.serverTrustFailure?.reason == .notPinned)
        #expect(server.statistics.plaintextByteCount == 0)
    }

    @Test func `when the pins have expired, a valid certificate is enough`() throws {
        let other = ServerTrust(certificates: [try Certificate(derData: present.replacingKey().derData)])
        var policy = policy
        #expect(!policy.evaluate(other, forDomain: "localhost").isTrusted)
        policy.pinsExpire = Date(timeIntervalSinceNow: -1)
        #expect(policy.evaluate(other, forDomain: "localhost").isTrusted)
        #expect(!policy.evaluate(other, forDomain: "elsewhere.test").isTrusted)
    }
}
// Article: end
