import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests of rate limits and stall limits of operations and managers. They tolerate a slow machine, which only makes
/// transfers slower.
@Suite struct OperationRateTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager
    private static let size = 500_000

    init() throws {
        server = try TestServer()
        server.route("/body", .pattern(count: Self.size))
        server.route("POST", "/upload", .json(text: "{}"))
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: DispatchQueue(label: "Convoy.Rates"))
        manager.responseSerializer = HTTPResponseSerializer()
    }

    /// Returns the shortest time, in seconds, in which the given number of bytes may arrive.
    private func least(_ count: Int, at rate: Double) -> Double { (Double(count) - rate / 8 - Double(16 << 10)) / rate }

    private func seconds(_ work: () async throws -> Void) async rethrows -> Double {
        let start = MonotonicClock.now
        try await work()
        return Double(MonotonicClock.now - start) / 1e9
    }

    @Test func `the operations of a manager share its rate limit`() async throws {
        let rate = 3_000_000.0
        manager.receiveRateLimit = RateLimit(bytesPerSecond: Int64(rate))
        let manager = manager
        let taken = try await seconds {
            try await withThrowingTaskGroup { group in
                for _ in 0..<4 {
                    group.addTask {
                        let body: Data = try await manager.get("body")
                        #expect(body == PatternBytes.data(count: Self.size))
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(taken >= least(4 * Self.size, at: rate))
    }

    @Test func `the limits of an operation and of its manager both apply`() async throws {
        let (loose, strict) = (RateLimit(bytesPerSecond: 100_000_000), RateLimit(bytesPerSecond: 1_000_000))
        for (ofManager, ofOperation) in [(loose, strict), (strict, loose)] {
            manager.receiveRateLimit = ofManager
            let operation = try manager.makeOperation(.get, "body")
            operation.receiveRateLimit = ofOperation
            #expect(operation.connectionConfiguration.receiveRateLimits == [ofManager])
            #expect(operation.receiveRateLimit == ofOperation && manager.receiveRateLimit == ofManager)
            let taken = try await seconds { try await manager.enqueue(operation).finished() }
            #expect(operation.responseData == PatternBytes.data(count: Self.size))
            #expect(taken >= least(Self.size, at: 1e6))
        }
    }

    @Test func `uploads from files and from memory are limited`() async throws {
        let rate = 1_500_000.0
        manager.sendRateLimit = RateLimit(bytesPerSecond: Int64(rate))
        let body = PatternBytes.data(count: Self.size)
        let directory = try TemporaryDirectory(prefix: "convoy-rates")
        let file = try directory.write(body, to: "body")
        let manager = manager
        for isFile in [true, false] {
            let taken = try await seconds {
                if isFile {
                    try await manager.upload("upload", from: .file(file))
                } else {
                    try await manager.upload("upload", from: .data(body))
                }
            }
            #expect(taken >= least(Self.size, at: rate))
            #expect(server.requests.last?.bodyChecksum == BodyChecksum.of(body))
        }
        #expect(try manager.makeOperation(.get, "body").sendRateLimit == nil && manager.sendRateLimit != nil)
    }

    @Test func `a limited download into a file can be paused and cancelled`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-rates")
        let limit = RateLimit(bytesPerSecond: 1_000_000)
        manager.receiveRateLimit = limit
        let file = directory.file("whole")
        let manager = manager
        let taken = try await seconds {
            let operation = try manager.makeOperation(.get, "body")
            operation.outputStream = FileOutputStream(fileURL: file)
            manager.enqueue(operation)
            try await operation.finished()
        }
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: Self.size))
        #expect(taken >= least(Self.size, at: 1e6))

        limit.bytesPerSecond = 0
        let paused = Probe(server.url("/body"))
        paused.operation.connectionConfiguration.receiveRateLimits = [limit]
        manager.enqueue(paused.operation)
        try await waitUntil("the transfer waits") { limit.waiterCount == 1 }
        paused.operation.pause()
        try await waitUntil("it has left the queue of waiters") { limit.waiterCount == 0 }
        paused.operation.resume()
        try await waitUntil("the transfer waits again") { limit.waiterCount == 1 }
        let cancelled = Probe(server.url("/body"))
        cancelled.operation.receiveRateLimit = limit
        manager.enqueue(cancelled.operation)
        try await waitUntil("both wait") { limit.waiterCount == 2 }
        cancelled.operation.cancel()
        try await waitUntil("one transfer has left") { limit.waiterCount == 1 }
        limit.bytesPerSecond = nil
        try await waitUntil("the other transfer ends") { paused.operation.isFinished && cancelled.operation.isFinished }
        #expect(paused.operation.responseData == PatternBytes.data(count: Self.size))
        #expect((cancelled.operation.error as? URLError)?.code == .cancelled)
    }

    @Test func `removing a limit lets a waiting operation finish`() async throws {
        let limit = RateLimit(bytesPerSecond: 1)
        manager.receiveRateLimit = limit
        let operation = manager.get("body", success: nil)
        try await waitUntil("the transfer waits") { limit.waiterCount == 1 }
        limit.bytesPerSecond = nil
        try await operation.finished()
        #expect(operation.responseData == PatternBytes.data(count: Self.size))
    }

    @Test func `identical requests share a transfer only under the same limits`() async throws {
        let gate = TestServer.Gate()
        server.route("/same", .text("same").held(by: gate))
        manager.coalescesIdenticalRequests = true
        let limit = RateLimit(bytesPerSecond: 1_000_000)
        let operations = try (0..<4).map { number in
            let operation = try manager.makeOperation(.get, "same")
            if number > 0 { operation.receiveRateLimit = number == 3 ? RateLimit(bytesPerSecond: 1_000_000) : limit }
            return operation
        }
        manager.enqueue(operations)
        try await server.wait { $0.activeRequestCount == 3 }
        gate.open()
        for operation in operations { try await operation.finished() }
        #expect(server.requests.count == 3)
    }

    @Test func `a copied manager shares the limits`() {
        manager.receiveRateLimit = RateLimit(bytesPerSecond: 1)
        manager.sendRateLimit = RateLimit(bytesPerSecond: 2)
        manager.stallLimit = StallLimit(bytesPerSecond: 3, duration: 4)
        manager.maximumStartRate = StartRate(perSecond: 5, burst: 6)
        manager.maximumStartRatePerHost = StartRate(perSecond: 7)
        let copy = manager.makeCopy()
        #expect(copy.receiveRateLimit === manager.receiveRateLimit && copy.sendRateLimit === manager.sendRateLimit)
        #expect(copy.stallLimit == StallLimit(bytesPerSecond: 3, duration: 4))
        #expect(copy.maximumStartRate == StartRate(perSecond: 5, burst: 6))
        #expect(copy.maximumStartRatePerHost == StartRate(perSecond: 7))
        copy.receiveRateLimit = nil
        copy.maximumStartRate = nil
        #expect(manager.receiveRateLimit != nil && manager.maximumStartRate != nil)
        manager.operationQueue = OperationQueue()
        manager.maximumStartRate = StartRate(perSecond: 1)
        #expect(manager.maximumStartRate == nil && manager.maximumStartRatePerHost == nil)
    }

    @Test func `a stalled transfer is retried and resumes where it stopped`() async throws {
        let whole = TestServer.Response.pattern(count: Self.size).header("ETag", "\"one\"")
        var rest = TestServer.Response.pattern(count: Self.size - 200_000, offset: 200_000).header("ETag", "\"one\"")
        rest = rest.status(206).header("Content-Range", "bytes 200000-\(Self.size - 1)/\(Self.size)")
        server.route("/stalls", inTurn: [whole.stalls(afterBytes: 200_000), rest])
        manager.stallLimit = StallLimit(bytesPerSecond: 1_000, duration: 0.3)
        let (operation, alone) = (try manager.makeOperation(.get, "stalls"), try manager.makeOperation(.get, "alone"))
        #expect(operation.stallLimit == manager.stallLimit)
        operation.retryPolicy = RetryPolicy(maximumRetryCount: 1)
        try await manager.enqueue(operation).finished()
        #expect(operation.responseData == PatternBytes.data(count: Self.size) && operation.retryCount == 1)
        #expect(server.requests.last?.headers["Range"] == "bytes=200000-")

        server.route("/alone", whole.stalls(afterBytes: 200_000))
        await #expect(throws: URLError.self) { try await manager.enqueue(alone).finished() }
        let error = try #require(alone.error as? URLError)
        #expect(error.code == .timedOut && error.localizedDescription.contains("below 1000 bytes per second"))
    }

    @Test func `a manager's queue starts no more requests per second than allowed`() async throws {
        server.route("/small", .text("small"))
        server.route("/failing", inTurn: [.status(503), .text("at last")])
        manager.maximumStartRate = StartRate(perSecond: 50, burst: 2)
        manager.retryPolicy = RetryPolicy(maximumRetryCount: 1)
        manager.retryPolicy?.initialDelay = 0
        manager.retryPolicy?.maximumGateDuration = 0
        let manager = manager
        let taken = try await seconds {
            try await withThrowingTaskGroup { group in
                for number in 0..<10 {
                    group.addTask { let _: Data = try await manager.get(number == 0 ? "failing" : "small") }
                }
                try await group.waitForAll()
            }
        }
        // The eleven starts include the retry, and the first two occur at once.
        #expect(server.requests.count == 11)
        #expect(taken >= 9.0 / 50)
    }
}
