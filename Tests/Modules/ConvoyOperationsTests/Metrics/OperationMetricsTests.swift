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

/// The metrics of operations with every outcome.
@Suite struct OperationMetricsTests {
    let bench: MetricsBench
    var server: TestServer { bench.server }
    var manager: HTTPRequestOperationManager { bench.manager }

    init() throws { bench = try MetricsBench() }

    @Test func `without collectsMetrics, an operation has no metrics`() async throws {
        manager.collectsMetrics = false
        let operation = try bench.operation("quick")
        manager.enqueue(operation)
        try await operation.finished()
        #expect(operation.metrics == nil)
    }

    @Test func `metrics can be enabled for a single operation`() async throws {
        manager.collectsMetrics = false
        let operation = try bench.operation("quick")
        operation.collectsMetrics = true
        manager.enqueue(operation)
        #expect(try await bench.metrics(operation).transactions.count == 1)
        let plain = HTTPRequestOperation(request: URLRequest(url: server.url("/quick")))
        plain.collectsMetrics = true
        #expect(plain.metrics == nil)
        let copy = plain.makeCopy()
        for operation in [plain, copy] {
            operation.start()
            let metrics = try await bench.metrics(operation)
            #expect(metrics.transactions.count == 1 && operation.collectsMetrics)
        }
    }

    @Test func `metrics are available in the handlers and for dependents`() async throws {
        let first = try bench.operation("quick"), second = try bench.operation("quick")
        let seen = Locked<[Int?]>([])
        first.setCompletionHandler(
            success: { operation, _ in seen.withLock { $0.append(operation.metrics?.transactions.count) } },
            failure: { _, _ in })
        second.addDependency(first)
        second.prepare = { _ in seen.withLock { $0.append(first.metrics?.transactions.count) } }
        manager.enqueue([first, second])
        let metrics = try await bench.metrics(second)
        // The handlers of the first operation may run after the end of the second one, which has no handlers.
        try await waitUntil("both") { seen.withLock { $0.count } == 2 }
        #expect(seen.withLock { $0 } == [1, 1])
        let kept = try #require(first.metrics)
        #expect(kept == first.metrics)
        #expect(kept.endDate <= metrics.endDate && metrics.startDate != nil)
        #expect("\(metrics)".contains("GET http://127.0.0.1:"))
    }

    @Test func `redirects are counted and have their own transactions`() async throws {
        server.redirect("/a", to: "/b")
        server.redirect("/b", to: "/quick")
        let operation = try bench.operation("a")
        manager.enqueue(operation)
        let metrics = try await bench.metrics(operation)
        #expect(metrics.redirectCount == 2)
        #expect(metrics.transactions.map { $0.url?.path } == ["/a", "/b", "/quick"])
        let inside = metrics.transactions.reduce(0) { $0 + $1.duration }
        #expect(inside <= metrics.workDuration)
    }

    @Test func `a redirect that is kept as the response does not count as followed`() async throws {
        server.redirect("/a", to: "/quick")
        let operation = try bench.operation("a")
        operation.redirectHandler = { _, _, _ in nil }
        manager.enqueue(operation)
        let metrics = try await bench.metrics(operation)
        #expect(metrics.redirectCount == 0 && metrics.transactions.map(\.statusCode) == [302])
    }

    @Test func `an operation cancelled before its start has no transactions and no start`() async throws {
        let operation = try bench.operation("quick")
        operation.cancel()
        manager.enqueue(operation)
        let metrics = try await bench.metrics(operation)
        #expect(metrics.transactions.isEmpty && metrics.start == nil && metrics.startDate == nil)
        #expect(metrics.workDuration < 0.1)
    }

    @Test func `an operation cancelled while it waits for a response has a transaction until then`() async throws {
        let gate = TestServer.Gate()
        server.route("/held", .text("x").held(by: gate))
        let operation = try bench.operation("held")
        manager.enqueue(operation)
        try await server.waitForRequests(count: 1, timeout: 100)
        operation.cancel()
        let metrics = try await bench.metrics(operation)
        let transaction = try #require(metrics.transactions.first)
        #expect(metrics.transactions.count == 1 && transaction.statusCode == nil && transaction.connected != nil)
        gate.open()
    }

    @Test func `an operation that cannot be sent has no transactions`() async throws {
        let operation = manager.makeOperation(request: URLRequest(url: try #require(URL(string: "ftp://127.0.0.1/"))))
        manager.enqueue(operation)
        #expect(try await bench.metrics(operation).transactions.isEmpty)
        let refusing = try bench.operation("quick")
        refusing.prepare = { _ in throw CancellationError() }
        manager.enqueue(refusing)
        let metrics = try await bench.metrics(refusing)
        #expect(metrics.transactions.isEmpty && metrics.start != nil)
    }

    @Test func `an operation that times out has the transaction that was interrupted`() async throws {
        let gate = TestServer.Gate()
        server.route("/held", .text("x").held(by: gate))
        let operation = try bench.operation("held")
        operation.totalTimeout = 0.3
        manager.enqueue(operation)
        let metrics = try await bench.metrics(operation)
        #expect((operation.error as? URLError)?.code == .timedOut)
        #expect(metrics.transactions.count == 1 && metrics.workDuration >= 0.25)
        gate.open()
    }

    @Test func `a refused connection that is retried has one transaction per attempt`() async throws {
        let port = try LoopbackPort.free()
        let operation = manager.makeOperation(
            request: URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)/"))))
        var policy = RetryPolicy()
        policy.initialDelay = 0.02
        policy.maximumRetryCount = 2
        operation.retryPolicy = policy
        manager.enqueue(operation)
        let metrics = try await bench.metrics(operation)
        #expect(metrics.retryCount == 2 && metrics.transactions.count == 3)
        #expect(metrics.transactions.allSatisfy { $0.connected == nil && $0.statusCode == nil })
    }

    // MARK: The cache

    @Test func `a response from the cache is marked as such, and its metrics contain no sent bytes`() async throws {
        manager.cache = HTTPCache()
        server.route("/kept", .text("kept").header("Cache-Control", "max-age=600"))
        server.route("/checked") { request in
            let fields: TestServer.Headers = ["ETag": "\"1\"", "Cache-Control": "no-cache"]
            return request.headers["If-None-Match"] == "\"1\""
                ? .status(304, headers: fields)
                : .text("checked").header("ETag", "\"1\"").header("Cache-Control", "no-cache")
        }
        func load(_ path: String) async throws -> [TransactionMetrics] {
            let operation = try bench.operation(path)
            manager.enqueue(operation)
            return try await bench.metrics(operation).transactions
        }
        _ = try await (load("kept"), load("checked"))
        let hit = try await load("kept")
        #expect(hit.map(\.cacheUse) == [.fresh] && hit.map(\.statusCode) == [200])
        let stored = try #require(hit.first)
        #expect(stored.countOfRequestHeaderBytesSent == 0 && stored.countOfResponseBodyBytesReceived == 0)
        #expect(stored.countOfResponseBodyBytesAfterDecoding == 4)
        #expect(stored.connected == nil && stored.remoteAddress == nil && stored.networkProtocolName == nil)
        #expect(stored.duration(of: .receive) == stored.duration)
        let validated = try await load("checked")
        #expect(validated.map(\.statusCode) == [304, 200])
        #expect(validated.map(\.cacheUse) == [nil, .validated])
        #expect(validated.first?.countOfResponseBodyBytesAfterDecoding == 0)
        #expect(validated.last?.countOfResponseBodyBytesAfterDecoding == 7)
    }

    // MARK: Shared requests

    @Test func `shared transactions are marked as shared, except for the operation that sent the request`() async throws {
        manager.coalescesIdenticalRequests = true
        let gate = TestServer.Gate()
        server.redirect("/moved", to: "/held")
        server.route("/held", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 10_000))
        var operations = try (0..<3).map { _ in try bench.operation("moved") }
        manager.enqueue(operations)
        try await server.waitForRequests(count: 2, timeout: 100)
        #expect(eventually { operations.allSatisfy { $0.transferProgress.bytesReceived > 0 } })
        // An operation that joins late has shared the redirect as well.
        operations.append(try bench.operation("moved"))
        manager.enqueue(operations[3])
        #expect(eventually { operations[3].transferProgress.bytesReceived > 0 })
        gate.open()
        var shared: [[Bool]] = []
        for operation in operations {
            let metrics = try await bench.metrics(operation)
            #expect(metrics.transactions.map(\.statusCode) == [302, 200] && metrics.redirectCount == 1)
            shared.append(metrics.transactions.map(\.isShared))
        }
        #expect(shared == [[false, false], [true, true], [true, true], [true, true]])
        #expect(server.requests.count == 2)
    }

    @Test func `only the last operation to leave a shared request records how it ended`() async throws {
        manager.coalescesIdenticalRequests = true
        let gate = TestServer.Gate()
        server.route("/held", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 10_000))
        let operations = try (0..<2).map { _ in try bench.operation("held") }
        manager.enqueue(operations)
        #expect(eventually { operations.allSatisfy { $0.transferProgress.bytesReceived > 0 } })
        operations[0].cancel()
        #expect(try await bench.metrics(operations[0]).transactions.isEmpty)
        operations[1].cancel()
        let metrics = try await bench.metrics(operations[1])
        #expect(metrics.transactions.map(\.isShared) == [false] && metrics.transactions.first?.statusCode == 200)
        gate.open()
    }

    // MARK: Concurrent calls

    @Test func `the metrics of many operations stay consistent under concurrent calls`() async throws {
        manager.maxConcurrentOperationCount = 4
        var policy = RetryPolicy()
        policy.initialDelay = 0.01
        manager.retryPolicy = policy
        server.route("/flaky", inTurn: (0..<40).map { $0 % 3 == 0 ? .text("x").resetBeforeHead() : .text("good") })
        var random = SplitMix64(seed: 11)
        let operations = try (0..<120).map { try bench.operation(["quick", "flaky", "none"][$0 % 3]) }
        for (first, second) in zip(operations, operations.dropFirst()) where Int.random(in: 0..<5, using: &random) == 0 {
            second.addDependency(first)
        }
        manager.enqueue(operations)
        let threads = DispatchGroup()
        for thread in 0..<3 {
            var random = SplitMix64(seed: UInt64(thread))
            let choices = (0..<200).map { _ in
                (Int.random(in: operations.indices, using: &random), Int.random(in: 0..<6, using: &random))
            }
            DispatchQueue.global().async(group: threads) {
                for (index, choice) in choices {
                    switch choice {
                    case 0: operations[index].cancel()
                    case 1, 2: operations[index].pause()
                    default: operations[index].resume()
                    }
                }
            }
        }
        await withCheckedContinuation { done in threads.notify(queue: .global()) { done.resume() } }
        for operation in operations { operation.resume() }
        for operation in operations {
            let metrics = try await bench.metrics(operation)
            #expect(metrics.start != nil || metrics.transactions.isEmpty)
            #expect(metrics == operation.metrics)
        }
    }
}
