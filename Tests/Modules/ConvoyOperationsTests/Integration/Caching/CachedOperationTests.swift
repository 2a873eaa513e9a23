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

/// Tests that responses from the cache are delivered like responses from the network.
@Suite struct CachedOperationTests: CachingSuite {
    let fixture: CachingFixture

    init() throws {
        fixture = try CachingFixture()
        server.route("/fresh", .text("body").header("Cache-Control", "max-age=600").header("ETag", "\"1\""))
    }

    @Test func `a hit has the stored body and head, and sends no request`() async throws {
        let first = try await get("/fresh")
        let second = try await get("/fresh")
        #expect(first.cacheUse == nil && second.cacheUse == .fresh)
        #expect(second.responseString == "body" && second.statusCode == 200)
        #expect(second.response?.value(forHTTPHeaderField: "ETag") == "\"1\"")
        #expect(second.response?.value(forHTTPHeaderField: "Age") != nil)
        #expect(server.requests("/fresh").count == 1)
        _ = try await manager.get("fresh", as: String.self)
        #expect(server.requests("/fresh").count == 1)
    }

    @Test func `a hit passes through the same states, notifications and handlers as a transfer`() async throws {
        func story() async throws -> [String] {
            let events = Locked<[String]>([])
            let note: @Sendable (String) -> Void = { event in events.withLock { $0.append(event) } }
            let operation = try manager.makeOperation(.get, "fresh")
            operation.postsNotifications = true
            let observation = operation.observe(.state, on: testQueue) { _, change in note("\(change.newValue)") }
            let posts = Locked<[String]>([])
            let observers = [Notification.Name.networkingOperationDidStart, .networkingOperationDidFinish].map { name in
                NotificationCenter.default.addObserver(forName: name, object: operation, queue: nil) { _ in
                    posts.withLock { $0.append(name.rawValue) }
                }
            }
            defer { for observer in observers { NotificationCenter.default.removeObserver(observer) } }
            operation.downloadProgressHandler = { bytes, total, expected in
                note("progress \(bytes) \(total) \(expected ?? -1)")
            }
            operation.setCompletionHandler(success: { _, _ in note("success") }, failure: { _, _ in note("failure") })
            operation.completionBlock = { note("completion") }
            let dependent = BlockOperation {
                note("dependent sees \(operation.responseString ?? "nothing")")
            }
            dependent.addDependency(operation)
            manager.enqueue([operation, dependent])
            try await operation.finished()
            while !dependent.isFinished || posts.withLock({ $0.count }) < 2 { await Task.yield() }
            testQueue.sync {}
            observation.invalidate()
            // Notifications from different queues are not ordered among each other.
            let all = events.withLock { $0 }
            let states = all.filter { ["ready", "executing", "paused", "finished"].contains($0) }
            let handlers = all.filter { !states.contains($0) && !$0.hasPrefix("dependent") }
            return states + handlers + all.filter { $0.hasPrefix("dependent") } + posts.withLock { $0 }
        }
        let network = try await story()
        let stored = try await story()
        #expect(network == stored)
        #expect(network.contains("success") && network.contains("progress 4 4 4"))
        #expect(network.contains("dependent sees body"))
        #expect(server.requests("/fresh").count == 1)
    }

    @Test func `an encoded body is stored encoded, and decoded for each hit`() async throws {
        let text = String(repeating: "packed ", count: 1000)
        let packed = try ProcessRunner.run("/bin/gzip", ["-9", "-c"], input: Data(text.utf8)).output
        server.route(
            "/gzip",
            .bytes(packed).header("Content-Encoding", "gzip").header("Cache-Control", "max-age=600"))
        #expect(try await get("/gzip").responseString == text)
        let second = try await get("/gzip")
        #expect(second.responseString == text && second.cacheUse == .fresh)
        #expect(second.transferProgress.bytesReceived == Int64(text.utf8.count))
        // A client that decodes the body itself gets its own representation.
        let own = try await get("/gzip") { $0.setValue("gzip", forHTTPHeaderField: "Accept-Encoding") }
        #expect(own.responseData == packed)
    }

    @Test func `a body of many chunks is delivered completely, into memory and into a file`() async throws {
        server.route("/large", .pattern(count: 3_000_001).header("Cache-Control", "max-age=600"))
        try await get("/large")
        #expect(try await get("/large").responseData == PatternBytes.data(count: 3_000_001))
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("cached-\(UUID())")
        defer { try? FileManager.default.removeItem(at: file) }
        let operation = try manager.makeOperation(.get, "large")
        operation.outputStream = FileOutputStream(fileURL: file)
        manager.enqueue(operation)
        try await operation.finished()
        #expect(operation.cacheUse == .fresh)
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: 3_000_001))
    }

    @Test func `a truncated or cancelled body is not stored`() async throws {
        server.route(
            "GET", "/cut",
            inTurn: [
                .pattern(count: 50_000).header("Cache-Control", "max-age=600").truncated(afterBytes: 20_000),
                .pattern(count: 50_000).header("Cache-Control", "max-age=600"),
            ])
        await #expect(throws: URLError.self) { try await get("/cut") }
        let whole = try await get("/cut")
        #expect(whole.cacheUse == nil && whole.responseData == PatternBytes.data(count: 50_000))

        let gate = TestServer.Gate()
        server.route(
            "GET", "/slow",
            .pattern(count: 50_000).header("Cache-Control", "max-age=600").heldBody(by: gate, afterBytes: 20_000))
        let operation = manager.enqueue(try manager.makeOperation(.get, "slow"))
        while operation.progress.completedUnitCount == 0 { await Task.yield() }
        operation.cancel()
        try? await operation.finished()
        gate.open()
        #expect(try await get("/slow").cacheUse == nil)
    }

    @Test func `a response shorter than its Content-Length does not poison the cache`() async throws {
        server.route("/lies", .text("short").header("Cache-Control", "max-age=600").contentLength(500))
        await #expect(throws: URLError.self) { try await get("/lies") }
        server.route("/lies", .text("honest").header("Cache-Control", "max-age=600"))
        #expect(try await get("/lies").responseString == "honest")
    }

    @Test func `an operation that reads slowly delays only itself`() async throws {
        server.route("/large", .pattern(count: 3_000_000).header("Cache-Control", "max-age=600"))
        try await get("/large")
        let stream = GatedStream()
        let slow = try manager.makeOperation(.get, "large")
        slow.outputStream = stream
        manager.enqueue(slow)
        while !stream.isWaiting { await Task.yield() }
        for _ in 0..<3 {
            #expect(try await get("/large").responseData?.count == 3_000_000)
        }
        #expect(!slow.isFinished)
        stream.letThrough()
        try await slow.finished()
        #expect(stream.count == 3_000_000 && slow.cacheUse == .fresh)
    }

    @Test func `a hit can be paused and resumed`() async throws {
        server.route("/large", .pattern(count: 3_000_000).header("Cache-Control", "max-age=600").header("ETag", "\"x\""))
        try await get("/large")
        let stream = GatedStream()
        let operation = try manager.makeOperation(.get, "large")
        operation.outputStream = stream
        manager.enqueue(operation)
        while !stream.isWaiting { await Task.yield() }
        operation.pause()
        stream.letThrough()
        while operation.state != .paused { await Task.yield() }
        operation.resume()
        try await operation.finished()
        #expect(stream.bytes == PatternBytes.data(count: 3_000_000))
    }

    @Test func `concurrent identical requests share one transfer and store one entry`() async throws {
        let gate = TestServer.Gate()
        server.route(
            "GET", "/shared",
            .pattern(count: 5000).header("Cache-Control", "max-age=600").heldBody(by: gate, afterBytes: 10))
        manager.coalescesIdenticalRequests = true
        let operations = try (0..<10).map { _ in try manager.makeOperation(.get, "shared") }
        manager.enqueue(operations)
        try await server.waitForRequests(count: 1)
        gate.open()
        for operation in operations { try await operation.finished() }
        #expect(operations.allSatisfy { $0.responseData == PatternBytes.data(count: 5000) })
        #expect(try await get("/shared").cacheUse == .fresh)
        #expect(server.requests("/shared").count == 1)
        #expect(cache.stores == 1)
    }

    @Test func `an operation without a cache neither reads nor writes it`() async throws {
        try await get("/fresh")
        let operation = try manager.makeOperation(.get, "fresh")
        operation.cache = nil
        manager.enqueue(operation)
        try await operation.finished()
        #expect(operation.cacheUse == nil && server.requests("/fresh").count == 2)
    }
}
