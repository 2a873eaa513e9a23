import ConvoyCache
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that the cache does not bypass server trust, and does not reveal an identity to another server.
@Suite struct CacheTrustTests {
    let cache = HTTPCache()

    private func manager(_ url: URL, _ policy: SecurityPolicy? = nil) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache
        if let policy { manager.securityPolicy = policy }
        return manager
    }

    private func get(_ manager: HTTPRequestOperationManager, _ url: URL) async throws -> HTTPRequestOperation {
        let operation = manager.enqueue(manager.makeOperation(request: URLRequest(url: url)))
        try await operation.finished()
        return operation
    }

    @Test func `a response for another Host field is not served for the actual host`() async throws {
        let server = try TestServer()
        server.route("GET", "/x") { request in
            .text(request.headers["Host"] ?? "").header("Cache-Control", "max-age=600")
        }
        let manager = manager(server.url)
        var bodies: [String?] = []
        for host in ["evil.example", nil, "evil.example", "EVIL.example"] {
            var request = URLRequest(url: server.url("/x"))
            request.setValue(host, forHTTPHeaderField: "Host")
            let operation = manager.enqueue(manager.makeOperation(request: request))
            try await operation.finished()
            bodies.append(operation.responseString)
        }
        let own = "\(server.url.host ?? ""):\(server.url.port ?? 0)"
        #expect(bodies.map { $0?.lowercased() } == ["evil.example", own, "evil.example", "evil.example"])
    }

    @Test func `a response received under different pins or authorities is not served`() async throws {
        let root = try TestCertificate.root()
        let server = try TestServer(tls: TestServer.TLS(try root.issue(.server("localhost", "127.0.0.1"))))
        server.route("/x", .text("body").header("Cache-Control", "max-age=600"))
        var trusting = SecurityPolicy()
        trusting.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
        #expect(try await get(manager(server.url, trusting), server.url("/x")).cacheUse == nil)
        #expect(try await get(manager(server.url, trusting), server.url("/x")).cacheUse == .fresh)
        let error = await #expect(throws: URLError.self) {
            _ = try await get(manager(server.url), server.url("/x"))
        }
        #expect(error?.serverTrustFailure != nil)
        var pinned = try SecurityPolicy(
            publicKeyPins: [TestCertificate.root().publicKeyPin], backupPins: [TestCertificate.root().publicKeyPin])
        pinned.certificateAuthorities = trusting.certificateAuthorities
        let strict = manager(server.url, pinned)
        let other = await #expect(throws: URLError.self) { _ = try await get(strict, server.url("/x")) }
        #expect(other?.serverTrustFailure != nil)
        var forHost = SecurityPolicy()
        try forHost.setPolicy(trusting, forHosts: "127.0.0.1")
        try forHost.setPolicy(pinned, forHosts: "other.example")
        #expect(try await get(manager(server.url, forHost), server.url("/x")).cacheUse == .fresh)
    }

    @Test func `a background revalidation after a redirect does not reveal the client's identity`() async throws {
        let root = try TestCertificate.root()
        let ada = try root.issue(.client("ada"))
        var tls = TestServer.TLS(try root.issue(.server("localhost", "127.0.0.1")))
        (tls.clientCertificates, tls.clientAuthorities) = (.requested, [root])
        let (first, second) = (try TestServer(tls: tls), try TestServer(tls: tls))
        first.route("/a", .redirect(to: second.url("/b").absoluteString).header("Cache-Control", "no-store"))
        second.route(
            "GET", "/b",
            inTurn: [
                .text("first").header("Cache-Control", "max-age=0, stale-while-revalidate=600"),
                .text("second").header("Cache-Control", "max-age=600"),
            ])
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
        let manager = manager(first.url, policy)
        manager.connectionConfiguration.clientIdentity = ClientIdentity(
            certificatePEM: Data((ada.chainPEM + ada.privateKeyPEM).utf8))
        _ = try await get(manager, first.url("/a"))
        #expect(try await get(manager, first.url("/a")).cacheUse == .staleWhileRevalidate)
        try await second.waitForRequests(count: 2)
        #expect(first.requests.allSatisfy { $0.tls?.clientCertificateSubject == "CN=ada" })
        #expect(second.requests.map { $0.tls?.clientCertificateSubject } == [nil, nil])
        var third = try await get(manager, first.url("/a"))
        for _ in 0..<200 where third.responseString != "second" { third = try await get(manager, first.url("/a")) }
        #expect(third.responseString == "second")
    }

    @Test func `a passphrase is requested once, and delays no request that does not need it`() async throws {
        let root = try TestCertificate.root()
        let ada = try root.issue(.client("ada"))
        var tls = TestServer.TLS(try root.issue(.server("localhost", "127.0.0.1")))
        (tls.clientCertificates, tls.clientAuthorities) = (.requested, [root])
        let (secure, plain) = (try TestServer(tls: tls), try TestServer())
        for server in [secure, plain] {
            server.route("/x", .text("body").header("Cache-Control", "max-age=600"))
        }
        let directory = try TemporaryDirectory(prefix: "convoy-passphrase")
        defer { directory.remove() }
        let file = directory.file("ada.p12")
        try ada.pkcs12(passphrase: "s3cret").write(to: file)
        let calls = Locked(0)
        let (asked, opened) = (Signal(), DispatchSemaphore(value: 0))
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
        let secret = manager(secure.url, policy)
        secret.connectionConfiguration.clientIdentity = ClientIdentity(pkcs12: file) {
            calls.withLock { $0 += 1 }
            asked.fire()
            // Limit the wait, so that the test fails instead of hanging.
            _ = opened.wait(timeout: .now() + 20)
            return "s3cret"
        }
        let held = secret.enqueue(secret.makeOperation(request: URLRequest(url: secure.url("/x"))))
        #expect(await Task.detached { asked.wait() }.value)
        let other = manager(plain.url)
        #expect(try await get(other, plain.url("/x")).responseString == "body")
        #expect(!held.isFinished)
        opened.signal()
        // The passphrase is cached now. A second call would wait for a signal that never comes.
        try await held.finished()
        #expect(try await get(secret, secure.url("/x")).cacheUse == .fresh)
        #expect(try await get(other, plain.url("/x")).cacheUse == .fresh)
        #expect(calls.withLock { $0 } == 1)
    }
}
