import ConvoyCache
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Stale responses, served while a new one is requested or if the server cannot be reached (RFC 5861).
@Suite struct StaleResponseTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = HTTPCache()
    }

    private func get(_ path: String) async throws -> HTTPRequestOperation {
        let operation = manager.enqueue(try manager.makeOperation(.get, path))
        try await operation.finished()
        return operation
    }

    @Test func `a stale response is served while a new one is requested`() async throws {
        server.route(
            "GET", "/swr",
            inTurn: [
                .text("first").header("Cache-Control", "max-age=0, stale-while-revalidate=600"),
                .text("second").header("Cache-Control", "max-age=600"),
            ])
        _ = try await get("swr")
        let second = try await get("swr")
        #expect(second.responseString == "first" && second.cacheUse == .staleWhileRevalidate)
        try await server.waitForRequests(count: 2)
        var third = try await get("swr")
        while third.responseString != "second" { third = try await get("swr") }
        #expect(server.requests.count == 2)
    }

    @Test func `a response that is not stored does not keep a background transfer running`() async throws {
        let gate = TestServer.Gate()
        server.route(
            "GET", "/swr",
            inTurn: [
                .text("first").header("Cache-Control", "max-age=0, stale-while-revalidate=600"),
                .pattern(count: 100_000).header("Cache-Control", "no-store").heldBody(by: gate, afterBytes: 50_000),
            ])
        _ = try await get("swr")
        #expect(try await get("swr").cacheUse == .staleWhileRevalidate)
        try await server.waitForRequests(count: 2)
        // The rest of the second response never arrives, but the connection ends anyway.
        try await waitUntil("the end of the transfer") { server.openConnectionCount == 0 }
        gate.open()
    }

    @Test func `concurrent requests for a stale response trigger one revalidation`() async throws {
        let gate = TestServer.Gate()
        server.route(
            "GET", "/swr",
            inTurn: [
                .text("first").header("Cache-Control", "max-age=0, stale-while-revalidate=600"),
                .text("second").header("Cache-Control", "max-age=600").held(by: gate),
            ])
        _ = try await get("swr")
        let operations = try (0..<20).map { _ in try manager.makeOperation(.get, "swr") }
        manager.enqueue(operations)
        for operation in operations { try await operation.finished() }
        #expect(operations.allSatisfy { $0.responseString == "first" })
        gate.open()
        try await server.waitForRequests(count: 2)
        var last = try await get("swr")
        while last.responseString != "second" { last = try await get("swr") }
        #expect(server.requests.count == 2)
    }

    @Test func `a stale response replaces a server error if it allows that`() async throws {
        server.route(
            "GET", "/sie",
            inTurn: [
                .text("good").header("Cache-Control", "max-age=0, stale-if-error=600"),
                .pattern(count: 200_000).status(503),
            ])
        server.route(
            "GET", "/strict", inTurn: [.text("good").header("Cache-Control", "max-age=0"), .text("no").status(503)])
        _ = try await get("sie")
        let second = try await get("sie")
        #expect(second.responseString == "good" && second.statusCode == 200 && second.cacheUse == .staleIfError)
        _ = try await get("strict")
        await #expect(throws: (any Error).self) { _ = try await get("strict") }
    }

    @Test func `a stale response replaces a server error whose body does not end`() async throws {
        manager.idleTimeout = 2
        for (path, error) in [
            ("sie-stops", TestServer.Response.text("error").contentLength(100).stalls(afterBytes: 5)),
            ("sie-closes", .text("error").framed(.closeDelimited).stalls(afterBytes: 5)),
            ("sie-cut", .text("error").contentLength(100).truncated(afterBytes: 5)),
        ] {
            server.route(
                "GET", "/\(path)",
                inTurn: [.text("good").header("Cache-Control", "max-age=0, stale-if-error=600"), error.status(503)])
            _ = try await get(path)
            let second = try await get(path)
            #expect(second.responseString == "good" && second.cacheUse == .staleIfError, "\(path)")
        }
    }

    @Test func `a stale response is served if the server is unreachable and the response allows that`() async throws {
        server.route("GET", "/sie", .text("good").header("Cache-Control", "max-age=0, stale-if-error=600"))
        server.route("GET", "/strict", .text("good").header("Cache-Control", "max-age=0"))
        _ = try await get("sie")
        _ = try await get("strict")
        server.stop()
        let second = try await get("sie")
        #expect(second.responseString == "good" && second.cacheUse == .staleIfError)
        let error = await #expect(throws: URLError.self) { _ = try await get("strict") }
        #expect(error?.code == .cannotConnectToHost)
    }

    @Test func `an untrusted server does not count as unreachable`() async throws {
        server.route("GET", "/sie", .text("good").header("Cache-Control", "max-age=0, stale-if-error=600"))
        _ = try await get("sie")
        manager.connectionConfiguration.addressGuard = .publicAddresses
        let error = await #expect(throws: URLError.self) { _ = try await get("sie") }
        #expect(error?.addressRefusal != nil)
    }

    @Test func `a truncated response fails and is not replaced by a stale one`() async throws {
        server.route(
            "GET", "/sie",
            inTurn: [
                .text("good").header("Cache-Control", "max-age=0, stale-if-error=600"),
                .pattern(count: 200_000).truncated(afterBytes: 1000),
            ])
        _ = try await get("sie")
        let error = await #expect(throws: URLError.self) { _ = try await get("sie") }
        #expect(error?.code == .networkConnectionLost)
        #expect(server.requests.count == 2)
    }
}
