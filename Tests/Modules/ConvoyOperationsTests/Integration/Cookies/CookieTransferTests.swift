import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Requests with cookies that responses have set.
@Suite struct CookieTransferTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.route("/set", .text("set").header("Set-Cookie", "a=1; Path=/").header("Set-Cookie", "b=2; Path=/deep"))
        server.echo(at: "/echo")
        server.echo(at: "/deep/echo")
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
    }

    @discardableResult
    private func get(_ path: String, _ change: (inout URLRequest) -> Void = { _ in }) async throws -> HTTPRequestOperation {
        var request = URLRequest(url: server.url(path))
        change(&request)
        let operation = manager.enqueue(manager.makeOperation(request: request))
        try await operation.finished()
        return operation
    }

    private func cookies(_ path: String) -> [String?] { server.requests(path).map { $0.headers["Cookie"] } }

    @Test func `a response cannot set more cookies than one site may have`() async throws {
        let store = CookieStore()
        manager.cookieStore = store
        let lines = (0..<4500).map { "Set-Cookie: a\($0)=\($0)\r\n" }.joined()
        server.route("/many", .raw("HTTP/1.1 200 OK\r\n\(lines)Content-Length: 0\r\nConnection: close\r\n\r\n"))
        let few = (0..<50).map { "Set-Cookie: b\($0)=1\r\n" }.joined()
        server.route("/fifty", .raw("HTTP/1.1 200 OK\r\n\(few)Content-Length: 0\r\nConnection: close\r\n\r\n"))
        let before = store.revision
        try await get("/many")
        #expect(store.revision - before == 180)
        #expect(store.cookies.count == 180)
        // The same limit applies if a handler decides about each cookie.
        store.removeAll()
        let asked = Locked(0)
        store.acceptanceHandler = { _, _ in
            asked.withLock { $0 += 1 }
            return false
        }
        try await get("/many")
        #expect(asked.withLock { $0 } == 180)
        store.acceptanceHandler = nil
        // At least as many cookies as the RFC requires are processed, even if few are kept.
        let small = CookieStore(limits: CookieLimits(cookiesPerSite: 3))
        manager.cookieStore = small
        try await get("/fifty")
        #expect(small.cookies.map(\.name) == ["b47", "b48", "b49"])
    }

    @Test func `cookies are sent only to their sites, with prepared requests and with Foundation's`() async throws {
        try await get("/echo")
        try await get("/set")
        try await get("/echo")
        try await get("/deep/echo")
        _ = try await manager.get("echo", as: Data.self)
        #expect(cookies("/echo") == [nil, "a=1", "a=1"])
        #expect(cookies("/deep/echo") == ["b=2; a=1"])
    }

    @Test func `the cookies of a redirect are sent with the following request`() async throws {
        server.route("/login", .text("").status(302).header("Location", "/echo").header("Set-Cookie", "s=x; Path=/"))
        try await get("/login")
        #expect(cookies("/echo") == ["s=x"])
    }

    @Test func `error responses and responses to HEAD also set cookies`() async throws {
        server.route("/wrong", .text("no").status(404).header("Set-Cookie", "w=1; Path=/"))
        _ = try? await get("/wrong") { $0.httpMethod = "HEAD" }
        try await get("/echo")
        #expect(cookies("/echo") == ["w=1"])
    }

    @Test func `another origin neither receives cookies nor changes them`() async throws {
        let other = try TestServer()
        other.route("/take", .text("").status(302).header("Location", server.url("/echo").absoluteString))
        other.route("/set", .text("").header("Set-Cookie", "a=stolen; Domain=localhost; Path=/"))
        manager.connectionConfiguration.addressOverrides = [
            "one.example:80": "127.0.0.1:\(server.url.port ?? 0)",
            "two.example:80": "127.0.0.1:\(other.url.port ?? 0)",
        ]
        func load(_ text: String) async throws {
            let operation = manager.enqueue(manager.makeOperation(request: URLRequest(url: try #require(URL(string: text)))))
            try await operation.finished()
        }
        try await load("http://one.example/set")
        try await load("http://two.example/set")
        server.redirect("/away", to: "http://two.example/take")
        other.route("/take", .text("").status(302).header("Location", "http://one.example/echo"))
        try await load("http://one.example/away")
        #expect(other.requests("/take").map { $0.headers["Cookie"] } == [nil])
        #expect(cookies("/echo") == ["a=1"])
    }

    @Test func `a request that does not handle cookies neither sends nor stores them`() async throws {
        try await get("/set") { $0.httpShouldHandleCookies = false }
        #expect(manager.cookieStore?.cookies.isEmpty == true)
        try await get("/set")
        try await get("/echo") { $0.httpShouldHandleCookies = false }
        #expect(cookies("/echo") == [nil])
    }

    @Test func `a request's own Cookie field replaces stored cookies and is sent only to its origin`() async throws {
        try await get("/set")
        try await get("/echo") { $0.setValue("mine=1", forHTTPHeaderField: "cookie") }
        #expect(cookies("/echo") == ["mine=1"])
        #expect(server.requests("/echo").first?.headers.values(for: "Cookie").count == 1)
    }

    @Test func `operations without a manager have no cookies unless they have a store`() async throws {
        let first = HTTPRequestOperation(request: URLRequest(url: server.url("/set")))
        #expect(first.cookieStore == nil)
        try await first.finished()
        let store = CookieStore()
        for path in ["/set", "/echo"] {
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url(path)))
            operation.cookieStore = store
            try await operation.finished()
        }
        #expect(cookies("/echo") == ["a=1"])
        #expect(store.cookies.count == 2)
    }

    @Test func `each manager has its own store, which its copies share`() async throws {
        try await get("/set")
        let other = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        #expect(other.cookieStore !== manager.cookieStore && other.cookieStore != nil)
        #expect(manager.makeCopy().cookieStore === manager.cookieStore)
        manager.cookieStore = nil
        try await get("/echo")
        #expect(cookies("/echo") == [nil])
    }

    @Test func `replacing the configuration does not affect the cookies`() async throws {
        try await get("/set")
        manager.connectionConfiguration = ConnectionConfiguration(usesHTTP2: false)
        try await get("/echo")
        #expect(cookies("/echo") == ["a=1"])
    }

    @Test func `non-text bytes in a cookie are sent back unchanged`() async throws {
        let head =
            Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: n=".utf8) + [0xE9, 0xFF]
            + Array("; Path=/\r\n\r\n".utf8)
        server.route("/latin", .raw(Data(head)))
        try await get("/latin")
        let raw = try await get("/echo")
        let body = try #require(raw.responseData)
        #expect(!body.isEmpty)
        let sent = try #require(manager.cookieStore?.cookies(for: server.url("/echo")).first)
        #expect(sent.name == "n")
        #expect(server.requests("/echo").first?.headers["Cookie"]?.unicodeScalars.map(\.value) == [0x6E, 0x3D, 0xE9, 0xFF])
    }

    @Test func `a response with 407 comes from a proxy and sets no cookies`() async throws {
        server.route("/407", .text("").status(407).header("Set-Cookie", "p=1; Path=/"))
        _ = try? await get("/407")
        #expect(manager.cookieStore?.cookies.isEmpty == true)
    }

    @Test func `a retry sends the cookies set by an earlier attempt`() async throws {
        server.route(
            "GET", "/shaky",
            inTurn: [
                .text("").status(503).header("Set-Cookie", "t=1; Path=/"), .text("done"),
            ])
        var policy = RetryPolicy(maximumRetryCount: 2)
        policy.initialDelay = 0.001
        manager.retryPolicy = policy
        try await get("/shaky")
        #expect(cookies("/shaky") == [nil, "t=1"])
    }

    @Test func `operations share a transfer only if their cookies are equal`() async throws {
        let gate = TestServer.Gate()
        server.route("GET", "/shared", .pattern(count: 100).heldBody(by: gate, afterBytes: 10))
        manager.coalescesIdenticalRequests = true
        let first = manager.enqueue(try manager.makeOperation(.get, "shared"))
        try await server.waitForRequests(count: 1)
        try await get("/set")
        let second = manager.enqueue(try manager.makeOperation(.get, "shared"))
        try await server.waitForRequests(count: 3)
        gate.open()
        try await first.finished()
        try await second.finished()
        #expect(cookies("/shared") == [nil, "a=1"])
    }
}
