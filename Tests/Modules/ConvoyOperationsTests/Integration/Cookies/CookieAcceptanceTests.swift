import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Handlers that decide about cookies while the response waits.
@Suite struct CookieAcceptanceTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager
    let store = CookieStore()

    init() throws {
        server = try TestServer()
        server.echo(at: "/echo")
        server.route(
            "/login",
            .pattern(count: 300_000).status(302).header("Location", "/echo").header("Set-Cookie", "good=1")
                .header("Set-Cookie", "bad=1"))
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cookieStore = store
    }

    @Test func `a cookie that the handler refuses is not sent with the next request`() async throws {
        let asked = Locked<[String]>([])
        let onThread = Locked(false)
        store.acceptanceHandler = { cookie, url in
            asked.withLock { $0.append("\(cookie.name) \(url.path)") }
            onThread.withLock { $0 = $0 || Thread.current.name == "Convoy.Network" }
            return cookie.name != "bad"
        }
        try await manager.enqueue(manager.makeOperation(.get, "login")).finished()
        #expect(asked.withLock { $0 } == ["good /login", "bad /login"])
        #expect(!onThread.withLock { $0 })
        #expect(server.requests("/echo").map { $0.headers["Cookie"] } == ["good=1"])
    }

    @Test func `a large body waits for the handler and is delivered completely`() async throws {
        server.route("/large", .pattern(count: 3_000_000).header("Set-Cookie", "good=1"))
        let gate = DispatchSemaphore(value: 0)
        store.acceptanceHandler = { _, _ in
            gate.wait()
            return true
        }
        let operation = manager.enqueue(try manager.makeOperation(.get, "large"))
        try await server.waitForRequests(count: 1)
        // The waiting response does not delay other operations.
        try await manager.enqueue(manager.makeOperation(.get, "echo")).finished()
        #expect(operation.response == nil)
        gate.signal()
        try await operation.finished()
        #expect(operation.responseData == PatternBytes.data(count: 3_000_000))
        #expect(store.cookies.map(\.name) == ["good"])
    }

    @Test(arguments: ["large", "login"]) func `an operation cancelled while the handler is pending ends immediately`(
        path: String
    ) async throws {
        server.route("/large", .pattern(count: 3_000_000).header("Set-Cookie", "good=1"))
        let gate = DispatchSemaphore(value: 0)
        let asked = Locked(false)
        store.acceptanceHandler = { _, _ in
            asked.withLock { $0 = true }
            gate.wait()
            return true
        }
        let operation = manager.enqueue(try manager.makeOperation(.get, path))
        while !asked.withLock({ $0 }) { await Task.yield() }
        operation.cancel()
        await #expect(throws: URLError.self) { try await operation.finished() }
        gate.signal()
        gate.signal()
        #expect((operation.error as? URLError)?.code == .cancelled)
    }

    @Test func `a pause while the handler is pending stores and loses nothing`() async throws {
        server.route("/large", .pattern(count: 3_000_000).header("Set-Cookie", "good=1"))
        let gate = DispatchSemaphore(value: 0)
        let asked = Locked(0)
        store.acceptanceHandler = { _, _ in
            if asked.withLock({ count in
                count += 1
                return count == 1
            }) {
                gate.wait()
            }
            return true
        }
        let operation = manager.enqueue(try manager.makeOperation(.get, "large"))
        while asked.withLock({ $0 }) == 0 { await Task.yield() }
        operation.pause()
        gate.signal()
        operation.resume()
        try await operation.finished()
        #expect(operation.responseData == PatternBytes.data(count: 3_000_000))
    }

    /// The handler answers when libcurl has received the complete redirect response.
    @Test func `a reply about a redirect's cookies does not end the following request`() async throws {
        let moved = TestServer.Response.redirect(to: "/echo").header("Set-Cookie", "good=1")
        server.route("/moved", moved)
        store.acceptanceHandler = { _, _ in
            for _ in 0..<3 {
                let turn = DispatchSemaphore(value: 0)
                let _: Bool = NetworkThread.shared.perform { turn.signal() }
                turn.wait()
            }
            return true
        }
        for _ in 0..<20 {
            let others = try (0..<5).map { _ in manager.enqueue(try manager.makeOperation(.get, "echo")) }
            try await manager.enqueue(manager.makeOperation(.get, "moved")).finished()
            for other in others { try await other.finished() }
        }
    }
}
