import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

struct WaitingTests {
    @Test func `a wait on a thread or in a task returns when the requests have arrived`() async throws {
        let server = try TestServer()
        server.route("/", .text("x"))
        async let inTask = server.waitForRequests(count: 2)
        let client = Thread { @Sendable in
            guard let client = try? RawClient(port: server.port) else { return }
            for _ in 0..<2 { _ = try? client.exchange("GET", "/") }
        }
        client.start()
        #expect(try await inTask.count == 2)
        #expect(try blocking { try server.waitForRequests(count: 2).count } == 2)
    }

    @Test func `a wait fails when it times out or the server stops`() async throws {
        let server = try TestServer()
        #expect(throws: TestServerError.self) { try blocking { try server.waitForRequests(count: 1, timeout: 0.02) } }
        await #expect(throws: TestServerError.self) { try await server.waitForRequests(count: 1, timeout: 0.02) }
        let pending = Task { try await server.waitForRequests(count: 1, timeout: 60) }
        server.stop()
        await #expect(throws: TestServerError.stopped) { try await pending.value }
    }

    @Test func `a cancelled task stops waiting immediately`() async throws {
        let server = try TestServer()
        let task = Task { try await server.waitForRequests(count: 1, timeout: 60) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func `unmet expectations describe missing requests and requests without a route`() throws {
        let server = try TestServer()
        server.route("/x", .text("x"))
        server.expect("POST", "/x", count: 2)
        server.expect("/x", count: 3)
        server.expect("/x") { $0.text == "b" }
        let client = try RawClient(port: server.port)
        for body in ["a", "b"] { _ = try client.exchange("POST", "/x", body: Data(body.utf8)) }
        #expect(server.unmetExpectations == ["expected 3 of any method /x, received 2"])
        _ = try client.exchange("GET", "/x")
        try server.verifyExpectations()
        _ = try client.exchange("GET", "/y?z")
        #expect(throws: TestServerError.unmetExpectations(["received GET /y?z, which has no route"])) {
            try server.verifyExpectations()
        }
    }

    @Test func `a recording limit of zero records nothing but still counts requests`() throws {
        var configuration = TestServer.Configuration()
        configuration.recordingLimit = 0
        let server = try TestServer(configuration)
        let client = try RawClient(port: server.port)
        for _ in 0..<3 { _ = try client.exchange("GET", "/") }
        #expect(server.requests.isEmpty && server.statistics.requestCount == 3)
    }

    @Test func `an abandoned upload is listed only among the incomplete requests`() throws {
        let server = try TestServer()
        server.route("/up", .status(204))
        let client = try RawClient(port: server.port)
        try client.request("PUT", "/up", headers: ["Content-Length: 100"])
        try client.send("half")
        try server.wait { $0.receivedBodyBytes == 4 }
        client.reset()
        try server.wait { $0.abandonedRequestCount == 1 }
        #expect(server.requests.isEmpty && server.incompleteRequests.map(\.text) == ["half"])
    }

    /// Calls a blocking function from a task, for waits that are known to be short.
    private func blocking<Value>(_ body: () throws -> Value) rethrows -> Value { try body() }
}
