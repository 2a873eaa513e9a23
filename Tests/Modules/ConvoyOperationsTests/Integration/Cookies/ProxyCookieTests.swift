import ConvoyCache
import ConvoyCookies
import ConvoyDiagnostics
import ConvoySecurity
import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Cookies and the cache for requests that take a different route than their URL implies.
@Suite struct ProxyCookieTests {
    /// A proxy that answers for the origin, which does not exist.
    let proxy: TestServer
    let manager = HTTPRequestOperationManager(completionQueue: testQueue)
    let store = CookieStore()
    let origin = URL(string: "http://origin.example/x")

    init() throws {
        proxy = try TestServer()
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = HTTPCache()
        manager.cookieStore = store
        manager.connectionConfiguration.proxy = .proxy(try Proxy("http://127.0.0.1:\(proxy.url.port ?? 0)"))
    }

    private func get(_ url: URL) async throws -> HTTPRequestOperation {
        let operation = manager.enqueue(manager.makeOperation(request: URLRequest(url: url)))
        try? await operation.finished()
        return operation
    }

    @Test func `a proxy's 407 is not stored and sets no cookies, but the origin's 304 and error set theirs`() async throws {
        let url = try #require(origin)
        // Responses received before the store has any cookie are shared by all.
        store.setCookies(["a=1"], from: url)
        proxy.route(
            "GET", "/x",
            inTurn: [
                .text("first").header("Cache-Control", "max-age=0, stale-if-error=600").header("ETag", "\"a\"")
                    .header("Set-Cookie", "origin=1"),
                .text("").status(304).header("ETag", "\"a\""),
                .text("bad").status(502).header("Set-Cookie", "gateway=1"),
                .text("who?").status(407).header("Cache-Control", "max-age=600").header("Set-Cookie", "proxy=1")
                    .header("Proxy-Authenticate", "Basic realm=\"p\""),
                .text("last").header("Cache-Control", "no-store"),
            ])
        var answers: [String] = []
        for _ in 0..<5 {
            let operation = try await get(url)
            answers.append("\(operation.statusCode ?? 0) \(operation.cacheUse?.rawValue ?? "network")")
        }
        #expect(answers == ["200 network", "200 validated", "200 staleIfError", "407 network", "200 network"])
        #expect(!store.cookies.map(\.name).contains("proxy"))
        let sent = proxy.requests.map { $0.headers["Cookie"] }
        #expect(sent.dropFirst().allSatisfy { $0?.hasPrefix("a=1; origin=1") == true })
    }

    @Test func `a request upgraded by HSTS uses the address and cookies of https`() async throws {
        let root = try TestCertificate.root()
        let server = try TestServer(tls: TestServer.TLS(try root.issue(.server("localhost"))))
        server.route("GET", "/x") { request in
            .text(request.headers["Cookie"] ?? "none").header("Cache-Control", "max-age=600")
        }
        let plain = try TestServer()
        plain.route("/x", .text("plain").header("Cache-Control", "max-age=600"))
        let secure = server.url("/x", host: "localhost")
        var components = try #require(URLComponents(url: secure, resolvingAgainstBaseURL: false))
        components.scheme = "http"
        let url = try #require(components.url)
        store.setCookies(["safe=1; Secure"], from: secure)
        manager.connectionConfiguration = ConnectionConfiguration()
        manager.connectionConfiguration.addressOverrides = [
            "localhost:\(secure.port ?? 0)": "127.0.0.1:\(plain.url.port ?? 0)"
        ]
        let before = try await get(url)
        #expect(before.responseString == "plain" && plain.requests.first?.headers["Cookie"] == nil)
        manager.connectionConfiguration.addressOverrides = [:]
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(derData: root.derData)])
        manager.connectionConfiguration.securityPolicy = policy
        let hsts = HSTSStore()
        hsts.note("max-age=600", fromHost: "localhost")
        manager.connectionConfiguration.hsts = hsts
        for (address, use) in [(url, nil), (secure, CacheUse.fresh), (url, .fresh)] {
            let operation = try await get(address)
            #expect(operation.responseString == "safe=1" && operation.cacheUse == use, "\(address)")
        }
    }

    @Test func `a stored redirect is evaluated each time, and sends only its target's cookies`() async throws {
        let (one, two) = (try TestServer(), try TestServer())
        manager.connectionConfiguration = ConnectionConfiguration()
        let target = two.url("/to", host: "localhost")
        store.setCookies(["first=1"], from: one.url("/from"))
        one.route(
            "/from",
            .redirect(to: target.absoluteString, status: 301).header("Cache-Control", "max-age=600")
                .header("Set-Cookie", "one=1"))
        one.route(
            "/user",
            .redirect(to: "http://a:b@localhost:\(target.port ?? 0)/to", status: 308).header("Cache-Control", "max-age=600"))
        two.route("/to", .text("there").header("Cache-Control", "no-store").header("Set-Cookie", "two=1"))
        for round in 0..<3 {
            var request = URLRequest(url: one.url("/from"))
            if round == 2 { request.setValue("own=1", forHTTPHeaderField: "Cookie") }
            let operation = manager.enqueue(manager.makeOperation(request: request))
            try await operation.finished()
            #expect(operation.responseString == "there")
        }
        // The last request has its own cookie, and therefore another identity.
        #expect(one.requests.count == 2)
        #expect(two.requests.map { $0.headers["Cookie"] } == [nil, "two=1", "two=1"])
        for _ in 0..<2 { #expect(try await get(one.url("/user")).error != nil) }
        // A rejected response is not stored either.
        #expect(one.requests.count == 4 && two.requests.count == 3)
    }

    @Test func `no description contains a cookie or a partition's secret`() async throws {
        let server = try TestServer()
        server.route("/x", .text("x").header("Set-Cookie", "id=s3cret").header("Cache-Control", "max-age=600"))
        manager.connectionConfiguration = ConnectionConfiguration()
        store.setCookies(["mine=s3cret"], from: server.url)
        let operation = try await get(server.url("/x"))
        var texts = [
            "\(operation)", operation.debugDescription, "\(store)", "\(manager)", "\(store.cookies)",
            String(reflecting: store.cookies), operation.curlCommand(), "\(String(describing: manager.cache))",
        ]
        for value in [store, store.cookies, manager.cache as Any, operation, manager.connectionConfiguration] as [Any] {
            var text = ""
            dump(value, to: &text)
            texts.append(text)
        }
        for text in texts { #expect(!text.contains("s3cret"), "\(text.prefix(300))") }
    }
}
