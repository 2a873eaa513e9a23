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

/// The cache combined with retries, handlers, shared transfers, and released managers.
@Suite struct CacheHandlerTests: CachingSuite {
    let fixture: CachingFixture

    init() throws { fixture = try CachingFixture() }

    // MARK: Errors and retries

    @Test func `a stale response is served instead of a retry after an error, a reset or a timeout`() async throws {
        var policy = RetryPolicy(maximumRetryCount: 3)
        policy.initialDelay = 0.001
        manager.retryPolicy = policy
        let good = TestServer.Response.text("good").header("Cache-Control", "max-age=0, stale-if-error=600")
        server.route("GET", "/error", inTurn: [good, .status(503)])
        server.route("GET", "/silent", inTurn: [good, good.failing(.stallBeforeHead)])
        server.route("GET", "/reset", inTurn: [good, good.resetBeforeHead()])
        server.route("GET", "/nonsense", inTurn: [good, .raw("nonsense")])
        for path in ["/error", "/silent", "/reset", "/nonsense"] {
            try await get(path)
            let second = try await get(path) { $0.timeoutInterval = 1 }
            #expect(second.cacheUse == .staleIfError && second.responseString == "good", "\(path)")
        }
        #expect(server.requests("/error").count == 2 && server.requests("/silent").count == 2)
    }

    // MARK: Handlers

    @Test func `a handler that does not return delays only its own operation, which times out`() async throws {
        server.route("/x", .text("x").header("Cache-Control", "max-age=600"))
        server.route("/y", .text("y").header("Cache-Control", "max-age=600"))
        let gate = DispatchSemaphore(value: 0)
        defer { gate.signal() }
        let asked = Locked(false)
        let stuck = try manager.makeOperation(.get, "x")
        stuck.totalTimeout = 1
        stuck.cacheResponseHandler = { _, candidate in
            asked.withLock { $0 = true }
            gate.wait()
            return candidate
        }
        manager.enqueue(stuck)
        try await waitUntil("the handler") { asked.withLock { $0 } }
        let other = try manager.makeOperation(.get, "y")
        other.totalTimeout = 20
        other.cacheResponseHandler = { _, candidate in candidate }
        manager.enqueue(other)
        try await other.finished()
        #expect(try await get("/y").cacheUse == .fresh)
        try? await stuck.finished()
        #expect((stuck.error as? URLError)?.code == .timedOut)
    }

    @Test func `a handler that replaces an encoded body changes the stored response`() async throws {
        let packed = try ProcessRunner.run("/bin/gzip", ["-c"], input: Data("from the server".utf8)).output
        let own = try ProcessRunner.run("/bin/gzip", ["-c"], input: Data("from the handler".utf8)).output
        server.route("/x", .bytes(packed).header("Content-Encoding", "gzip").header("Cache-Control", "max-age=600"))
        let operation = try manager.makeOperation(.get, "x")
        operation.cacheResponseHandler = { _, candidate in
            var candidate = candidate
            #expect(candidate.data == packed)
            candidate.replaceBody(own)
            return candidate
        }
        manager.enqueue(operation)
        try await operation.finished()
        #expect(operation.responseString == "from the server")
        let second = try await get("/x")
        #expect(second.responseString == "from the handler" && second.cacheUse == .fresh)
        #expect(second.response?.value(forHTTPHeaderField: "Content-Length").map { $0 == "\(own.count)" } != false)
    }

    // MARK: Releasing

    @Test func `a background revalidation completes after the manager or the cache is released`() async throws {
        for keepsCache in [true, false] {
            let gate = TestServer.Gate()
            let path = "/swr\(keepsCache)"
            server.route(
                "GET", path,
                inTurn: [
                    .text("first").header("Cache-Control", "max-age=0, stale-while-revalidate=600"),
                    .text("second").header("Cache-Control", "max-age=600").held(by: gate),
                ])
            weak var weakManager: HTTPRequestOperationManager?
            var kept: HTTPCache?
            do {
                let other = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
                weakManager = other
                other.responseSerializer = HTTPResponseSerializer()
                let cache = HTTPCache()
                other.cache = cache
                if keepsCache { kept = cache }
                for _ in 0..<2 {
                    let operation = other.enqueue(try other.makeOperation(.get, path))
                    try await operation.finished()
                    #expect(operation.responseString == "first")
                }
            }
            try await waitUntil("the end of the manager") { weakManager == nil }
            try await waitUntil("the request") { server.requests(path).count == 2 }
            gate.open()
            if let kept {
                try await waitUntil("the new response") { kept.stores == 2 }
                manager.cache = kept
                let operation = try await get(path)
                #expect(operation.responseString == "second" && operation.cacheUse == .fresh)
                manager.cache = cache
            }
        }
    }

    // MARK: Sharing a transfer

    @Test func `operations that share a validation receive the complete body, even if the first one leaves`() async throws {
        let gate = TestServer.Gate()
        server.route(
            "GET", "/stale",
            inTurn: [
                .pattern(count: 400_000).header("Cache-Control", "max-age=0").header("ETag", "\"1\""),
                .status(304, headers: ["ETag": "\"1\"", "Cache-Control": "max-age=600"]).held(by: gate),
            ])
        try await get("/stale")
        manager.coalescesIdenticalRequests = true
        let operations = try (0..<10).map { _ in try manager.makeOperation(.get, "stale") }
        manager.enqueue(operations)
        try await server.waitForRequests(count: 2)
        operations[0].cancel()
        gate.open()
        for operation in operations { try? await operation.finished() }
        #expect((operations[0].error as? URLError)?.code == .cancelled)
        for operation in operations.dropFirst() {
            #expect(operation.responseData == PatternBytes.data(count: 400_000))
        }
        #expect(server.requests.count == 2)
    }
}
