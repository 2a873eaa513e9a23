import ConvoyCache
import ConvoyCookies
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

/// Tests that stored responses are not served to another identity, whatever the difference.
@Suite struct IdentityCacheTests {
    let server: TestServer
    let cache = HTTPCache()

    init() throws {
        server = try TestServer()
        // The route responds with the sender, but omits the `Vary` field.
        server.route("GET", "/account") { request in
            let names = ["Authorization", "Cookie", "X-Api-Key", "X-Tenant"]
            return .text(names.compactMap { request.headers[$0] }.joined(separator: " "))
                .header("Cache-Control", "max-age=600")
        }
    }

    private func manager(_ change: (HTTPRequestOperationManager) -> Void = { _ in }) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache
        change(manager)
        return manager
    }

    @discardableResult
    private func get(
        _ manager: HTTPRequestOperationManager, _ path: String = "account", headers: [String: String?] = [:]
    ) async throws -> HTTPRequestOperation {
        let operation = manager.enqueue(try manager.makeOperation(.get, path, headers: headers))
        try await operation.finished()
        return operation
    }

    /// Checks that each getter receives its own response, first from the server and then from the cache.
    private func expectApart(_ getters: [(text: String, get: () async throws -> HTTPRequestOperation)]) async throws {
        for isSecond in [false, true] {
            for getter in getters {
                let operation = try await getter.get()
                #expect(operation.responseString == getter.text)
                #expect((operation.cacheUse == .fresh) == isSecond, "\(getter.text)")
            }
        }
    }

    // MARK: Each part of an identity

    @Test func `two managers with separate cookies never receive each other's page`() async throws {
        let managers = ["ada", "eve"].map { name in
            manager { $0.cookieStore?.setCookies(["session=\(name)"], from: server.url) }
        }
        let nobody = manager()
        try await expectApart([
            ("session=ada", { try await get(managers[0]) }), ("session=eve", { try await get(managers[1]) }),
            ("", { try await get(nobody) }),
        ])
    }

    @Test(arguments: ["X-Api-Key", "X-Tenant"])
    func `a secret header field separates stored responses`(name: String) async throws {
        let managers = ["ada", "eve"].map { value in
            let manager = manager { $0.connectionConfiguration.sensitiveHeaders = ["x-TENANT"] }
            return (value, manager)
        }
        try await expectApart(
            managers.map { value, manager in (value, { try await get(manager, headers: [name: value]) }) })
        #expect(try await get(managers[0].1).responseString == "")
    }

    @Test func `a field that is not secret does not separate stored responses`() async throws {
        let (one, two) = (manager(), manager())
        #expect(try await get(one, headers: ["X-Tenant": "a"]).responseString == "a")
        #expect(try await get(two, headers: ["X-Tenant": "b"]).cacheUse == .fresh)
    }

    @Test func `stored responses are separated by the value of a Cookie field, or by the cookie store`() async throws {
        let one = manager { $0.cookieStore?.setCookies(["session=ada"], from: server.url) }
        try await expectApart([
            ("session=ada", { try await get(one) }), ("a=1", { try await get(one, headers: ["Cookie": "a=1"]) }),
            ("a=2", { try await get(one, headers: ["Cookie": "a=2"]) }),
        ])
        // One more cookie does not change the identity of the store.
        one.cookieStore?.setCookies(["theme=dark"], from: server.url)
        #expect(try await get(one).cacheUse == .fresh)
        // A cookie field with the same value, set manually, does not count as the store's.
        let other = manager()
        #expect(try await get(other, headers: ["Cookie": "session=ada"]).cacheUse == nil)
    }

    @Test func `responses to requests without cookies are shared between cookie stores`() async throws {
        let (one, two) = (manager(), manager { $0.cookieStore?.setCookies(["a=1; Path=/elsewhere"], from: server.url) })
        try await get(one)
        #expect(try await get(two).cacheUse == .fresh)
        two.cookieStore?.setCookies(["session=eve"], from: server.url)
        #expect(try await get(two).responseString == "session=eve")
        var plain = URLRequest(url: server.url("/account"))
        plain.httpShouldHandleCookies = false
        let operation = two.enqueue(two.makeOperation(request: plain))
        try await operation.finished()
        #expect(operation.cacheUse == .fresh)
    }

    @Test func `a user, a token and an authenticator's token are different identities`() async throws {
        let asking = try AskingServer()
        asking.route("/in") { request, _ in
            guard let value = request.headers["Authorization"] else { return .asking("Basic realm=\"r\"") }
            return .text(value).header("Cache-Control", "max-age=600")
        }
        func get(_ change: (HTTPRequestOperation) -> Void) async throws -> HTTPRequestOperation {
            let operation = AskingServer.operation(asking.url("/in"), credential: nil)
            operation.cache = cache
            change(operation)
            try await operation.finished()
            return operation
        }
        let basic = { (user: String) in "Basic " + Data("\(user):pw".utf8).base64EncodedString() }
        let credential = { (user: String) in URLCredential(user: user, password: "pw", persistence: .none) }
        let authenticator = { (token: String) in Authenticator(token: AccessToken(token)) { _ in AccessToken("x") } }
        try await expectApart([
            (basic("ada"), { try await get { $0.credential = credential("ada") } }),
            (basic("eve"), { try await get { $0.credential = credential("eve") } }),
            ("Bearer ada", { try await get { $0.authenticator = authenticator("ada") } }),
            ("Bearer eve", { try await get { $0.authenticator = authenticator("eve") } }),
        ])
    }

    @Test func `different client certificates are different identities`() async throws {
        let root = try TestCertificate.root()
        var tls = TestServer.TLS(try root.issue(.server("localhost", "127.0.0.1")))
        (tls.clientCertificates, tls.clientAuthorities) = (.requested, [root])
        let secure = try TestServer(tls: tls)
        secure.route("GET", "/account") { request in
            .text(request.tls?.clientCertificateSubject ?? "nobody").header("Cache-Control", "max-age=600")
        }
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
        func get(_ pem: String?) async throws -> HTTPRequestOperation {
            let manager = manager()
            manager.securityPolicy = policy
            // Use a new object for each request, because the certificate itself determines the identity.
            manager.connectionConfiguration.clientIdentity = pem.map { ClientIdentity(certificatePEM: Data($0.utf8)) }
            let operation = manager.enqueue(manager.makeOperation(request: URLRequest(url: secure.url("/account"))))
            try await operation.finished()
            return operation
        }
        let pems = try ["ada", "eve"].map { name in
            let certificate = try root.issue(.client(name))
            return certificate.chainPEM + certificate.privateKeyPEM
        }
        try await expectApart([
            ("CN=ada", { try await get(pems[0]) }), ("CN=eve", { try await get(pems[1]) }),
            ("nobody", { try await get(nil) }),
        ])
    }

    // MARK: Revalidation

    @Test func `a stale response is revalidated for its own identity, including in the background`() async throws {
        server.route("GET", "/stale") { request in
            let name = request.headers["X-Api-Key"] ?? "nobody"
            let etag = "\"\(name)\""
            if request.headers["If-None-Match"] == etag {
                return .status(304, headers: ["ETag": etag, "Cache-Control": "max-age=0, stale-while-revalidate=600"])
            }
            return .text(name).header("ETag", etag).header("Cache-Control", "max-age=0, stale-while-revalidate=600")
        }
        let manager = manager()
        for round in 0..<3 {
            for name in ["ada", "eve"] {
                let operation = try await get(manager, "stale", headers: ["X-Api-Key": name])
                #expect(operation.responseString == name)
                #expect((operation.cacheUse == .staleWhileRevalidate) == (round > 0))
            }
        }
        try await server.waitForRequests(count: 4)
        for request in server.requests("/stale").dropFirst(2) {
            #expect(request.headers["If-None-Match"] == "\"\(request.headers["X-Api-Key"] ?? "")\"")
        }
    }

    @Test func `an unsafe request invalidates the responses of all identities`() async throws {
        server.route("PUT", "/account", .status(204))
        let manager = manager()
        for name in ["ada", "eve"] { try await get(manager, headers: ["X-Api-Key": name]) }
        try await manager.enqueue(try manager.makeOperation(.put, "account", headers: ["X-Api-Key": "root"])).finished()
        for name in ["ada", "eve"] { #expect(try await get(manager, headers: ["X-Api-Key": name]).cacheUse == nil) }
    }
}
