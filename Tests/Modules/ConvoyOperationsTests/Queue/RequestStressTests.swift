import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Requests that eight threads subject to all calls concurrently.
///
/// `CONVOY_STRESS_SECONDS` sets the duration; also run it under `swift test --sanitize=thread`.
@Suite struct RequestStressTests {
    private final class Tally: Sendable {
        let enqueued = Atomic<Int>(0)
        let finished = Atomic<Int>(0)
    }

    /// An operation that counts the calls of its handlers.
    private final class Counted: HTTPRequestOperation, @unchecked Sendable {
        let timesFinished = Atomic<Int>(0)
    }

    @Test func `every operation finishes once and nothing is leaked`() throws {
        let seconds = Double(ProcessInfo.processInfo.environment["CONVOY_STRESS_SECONDS"] ?? "") ?? 1
        let server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        server.servePattern(count: 200_000, at: "/file", etag: "\"v1\"")
        server.route("GET", "/broken", .text("x").resetBeforeHead())
        server.redirect("/moved", to: "/quick")
        let paths = ["/quick", "/file", "/broken", "/moved"]
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 8
        let tally = Tally()
        let handlers = DispatchQueue(label: "handlers")
        let group = DispatchGroup()
        let threads = DispatchGroup()
        let deadline = Date(timeIntervalSinceNow: seconds)
        var seeds = SplitMix64.printingSeed()
        for number in 0..<8 {
            threads.enter()
            let seeded = seeds.fork()
            Thread {
                var random = seeded
                var mine: [Counted] = []
                while Date() < deadline {
                    // Add operations no faster than they can be processed.
                    if mine.count < 40 {
                        let path = paths[Int.random(in: 0..<4, using: &random)]
                        let operation = Counted(request: URLRequest(url: server.url(path)))
                        operation.completionQueue = handlers
                        operation.completionGroup = group
                        operation.coalescesIdenticalRequests = number % 4 == 0
                        if number % 2 == 0 {
                            operation.retryPolicy = RetryPolicy(maximumRetryCount: 1)
                            operation.retryPolicy?.initialDelay = 0.01
                        }
                        operation.setCompletionHandler(
                            success: { operation, _ in
                                (operation as? Counted)?.timesFinished.add(1, ordering: .relaxed)
                                tally.finished.add(1, ordering: .relaxed)
                            },
                            failure: { operation, _ in
                                (operation as? Counted)?.timesFinished.add(1, ordering: .relaxed)
                                tally.finished.add(1, ordering: .relaxed)
                            })
                        mine.append(operation)
                        tally.enqueued.add(1, ordering: .relaxed)
                        queue.addOperation(operation)
                    }
                    let some = mine[Int.random(in: 0..<mine.count, using: &random)]
                    switch Int.random(in: 0..<12, using: &random) {
                    case 0, 1, 2: some.pause()
                    case 3, 4, 5, 6: some.resume()
                    case 7: some.cancel()
                    case 8: some.queuePriority = [.veryLow, .normal, .veryHigh].randomElement(using: &random) ?? .normal
                    case 9: queue.maxConcurrentOperationCount = Int.random(in: 1...8, using: &random)
                    case 10: queue.maxConcurrentOperationCountPerHost = Int.random(in: 1...8, using: &random)
                    default: _ = some.description
                    }
                    mine.removeAll { operation in
                        guard operation.timesFinished.load(ordering: .relaxed) > 0 else { return false }
                        #expect(operation.timesFinished.load(ordering: .relaxed) == 1)
                        return true
                    }
                }
                for operation in mine { operation.resume() }
                threads.leave()
            }.start()
        }
        #expect(threads.wait(timeout: .now() + seconds + 30) == .success)
        queue.resumeAll()
        #expect(group.wait(timeout: .now() + 60) == .success)
        #expect(tally.finished.load(ordering: .relaxed) == tally.enqueued.load(ordering: .relaxed))
        #expect(tally.enqueued.load(ordering: .relaxed) > 0)
        queue.waitUntilAllOperationsAreFinished()
        #expect(queue.queuedOperationCount == 0)
    }
}
