import ConvoySecurity
import ConvoySerialization
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The reasons why operations have waited. The tests measure real time, so each wait is prolonged.
@Suite struct WaitTests {
    let bench: MetricsBench
    var server: TestServer { bench.server }
    var manager: HTTPRequestOperationManager { bench.manager }
    /// The duration of the waits, in seconds.
    private let delay = 0.3

    init() throws {
        bench = try MetricsBench()
        manager.operationQueue = RequestOperationQueue()
    }

    private func queue() throws -> RequestOperationQueue { try #require(manager.operationQueue as? RequestOperationQueue) }

    private func pair() throws -> [HTTPRequestOperation] { [try bench.operation("slow"), try bench.operation("quick")] }

    @Test func `the time before an operation is started counts as waiting for its start`() async throws {
        let operation = try bench.operation("quick")
        try await Task.sleep(for: .seconds(delay))
        manager.enqueue(operation)
        let metrics = try await bench.metrics(operation)
        expect(.start, of: metrics, toHaveTaken: delay)
        #expect(metrics.start ?? 0 >= delay && metrics.transactions.count == 1)
        #expect(metrics.redirectCount == 0 && metrics.retryCount == 0)
    }

    @Test func `a dependent waits for its dependency`() async throws {
        let operations = try pair()
        operations[1].addDependency(operations[0])
        manager.enqueue(operations)
        expect(.dependencies, of: try await bench.metrics(operations[1]), toHaveTaken: delay)
        let first = try await bench.metrics(operations[0])
        #expect(first.waitDuration(for: .dependencies) == 0 && first.workDuration >= delay * 0.75)
    }

    @Test func `an operation in a full queue waits for a slot`() async throws {
        manager.maxConcurrentOperationCount = 1
        let operations = try pair()
        manager.enqueue(operations)
        expect(.slot, of: try await bench.metrics(operations[1]), toHaveTaken: delay)
    }

    @Test func `a host limit delays only the operations of that host`() async throws {
        let queue = try queue()
        queue.maxConcurrentOperationCount = 8
        queue.maxConcurrentOperationCountPerHost = 1
        let other = try TestServer()
        other.route("/quick", .text("quick"))
        let operations = try pair() + [manager.makeOperation(request: URLRequest(url: other.url("/quick")))]
        manager.enqueue(operations)
        expect(.hostLimit, of: try await bench.metrics(operations[1]), toHaveTaken: delay)
        #expect(try await bench.metrics(operations[2]).waitDuration(for: .hostLimit) == 0)
    }

    @Test(arguments: [true, false]) func `a start rate delays operations that would start too early`(
        isPerHost: Bool
    ) async throws {
        let queue = try queue()
        let rate = StartRate(perSecond: 1 / delay)
        if isPerHost { queue.maximumStartRatePerHost = rate } else { queue.maximumStartRate = rate }
        let operations = try (0..<2).map { _ in try bench.operation("quick") }
        manager.enqueue(operations)
        expect(.startRate, of: try await bench.metrics(operations[1]), toHaveTaken: delay * 0.5)
    }

    @Test func `waits for a suspended queue and for a barrier are measured separately`() async throws {
        let queue = try queue()
        queue.isSuspended = true
        let operation = try bench.operation("slow")
        manager.enqueue(operation)
        try await Task.sleep(for: .seconds(delay))
        queue.isSuspended = false
        queue.addBarrierBlock {}
        let behind = try bench.operation("quick")
        manager.enqueue(behind)
        expect(.suspendedQueue, of: try await bench.metrics(operation), toHaveTaken: delay)
        expect(.barrier, of: try await bench.metrics(behind), toHaveTaken: delay * 0.8)
    }

    @Test func `a retry waits until it is due, and other operations wait at the closed gate`() async throws {
        server.route(
            "/busy", inTurn: [.status(503, headers: ["Retry-After": "1"]), .text("better")])
        manager.retryPolicy = RetryPolicy()
        let operation = try bench.operation("busy")
        manager.enqueue(operation)
        try await server.waitForRequests(count: 1, timeout: 100)
        // The gate closes slightly later than the retry is counted.
        let queue = try #require(manager.operationQueue as? RequestOperationQueue)
        #expect(eventually { operation.retryCount == 1 && !queue.closedGates.isEmpty })
        let other = try bench.operation("quick")
        manager.enqueue(other)
        let metrics = try await bench.metrics(operation)
        expect(.retry, of: metrics, toHaveTaken: 1)
        #expect(metrics.retryCount == 1 && metrics.transactions.map(\.statusCode) == [503, 200])
        let held = try await bench.metrics(other)
        expect(.closedGate, of: held, toHaveTaken: 0.2)
        #expect(held.transactions.count == 1)
    }

    @Test func `a pause is a wait and causes two transactions`() async throws {
        let gate = TestServer.Gate()
        server.serve(Data(repeating: 7, count: 300_000), at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 100_000) : response
        }
        let operation = try bench.operation("file")
        manager.enqueue(operation)
        #expect(eventually { operation.transferProgress.bytesReceived > 0 })
        operation.pause()
        #expect(operation.metrics == nil)
        try await server.wait(timeout: 100) { $0.openConnectionCount == 0 }
        gate.open()
        try await Task.sleep(for: .seconds(delay))
        operation.resume()
        let metrics = try await bench.metrics(operation)
        expect(.pause, of: metrics, toHaveTaken: delay)
        #expect(operation.responseData?.count == 300_000)
        #expect(metrics.transactions.map(\.statusCode) == [200, 206])
        #expect(metrics.transactions.map(\.countOfResponseBodyBytesReceived).reduce(0, +) >= 300_000)
    }

    @Test func `an operation paused before its start waits for the resume`() async throws {
        let operation = try bench.operation("quick")
        operation.pause()
        manager.enqueue(operation)
        try await Task.sleep(for: .seconds(delay))
        operation.resume()
        expect(.pause, of: try await bench.metrics(operation), toHaveTaken: delay)
    }

    @Test func `time after a pause does not count as paused`() async throws {
        let queue = try queue()
        queue.isSuspended = true
        let operation = try bench.operation("quick")
        manager.enqueue(operation)
        operation.pause()
        operation.resume()
        try await Task.sleep(for: .seconds(delay))
        queue.isSuspended = false
        let metrics = try await bench.metrics(operation)
        #expect(metrics.waitDuration(for: .pause) < metrics.waitDuration / 2, "\(metrics)")
    }

    @Test func `an operation waits for a token that is being refreshed`() async throws {
        let tokens = try TokenServer()
        let manager = HTTPRequestOperationManager(baseURL: tokens.server.url, completionQueue: testQueue)
        manager.collectsMetrics = true
        manager.authenticator = Authenticator { [delay] _ in
            try await Task.sleep(for: .seconds(delay))
            return AccessToken("t1")
        }
        let operation = try manager.makeOperation(.get, "data")
        operation.responseSerializer = HTTPResponseSerializer()
        manager.enqueue(operation)
        let metrics = try await bench.metrics(operation)
        #expect(operation.statusCode == 200)
        expect(.token, of: metrics, toHaveTaken: delay)
        #expect(metrics.transactions.count == 1)
    }

    @Test func `an operation waits for the reply to a challenge`() async throws {
        server.route("/secret") { request in
            request.headers["Authorization"] == AskingServer.basic
                ? .text("let in") : .status(401).header("WWW-Authenticate", "Basic realm=\"metrics\"")
        }
        let operation = try bench.operation("secret")
        operation.credentialStore = CredentialStore()
        operation.authenticationChallengeHandler = { _, _, answer in
            DispatchQueue.global().asyncAfter(deadline: .now() + 0.3) { answer(.useCredential(AskingServer.ada)) }
        }
        manager.enqueue(operation)
        let metrics = try await bench.metrics(operation)
        expect(.challenge, of: metrics, toHaveTaken: delay)
        #expect(metrics.transactions.map(\.statusCode) == [401, 200] && metrics.retryCount == 0)
    }

    @Test func `in a Foundation queue, all waiting time counts as waiting for the start`() async throws {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        manager.operationQueue = queue
        let operations = try pair()
        manager.enqueue(operations)
        expect(.start, of: try await bench.metrics(operations[1]), toHaveTaken: delay * 0.8)
    }
}
