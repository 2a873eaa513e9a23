import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// A wait that nothing ends is said once.
@Suite final class StuckWaitTests: Sendable {
    private let lines = Locked<[String]>([])

    private func wait(_ patience: TimeInterval = 0.05) -> StuckWait {
        StuckWait("stuck", patience: patience) { [self] line in lines.withLock { $0.append(line) } }
    }

    @Test func `a queue that runs nothing is reported once`() async throws {
        let queue = DispatchQueue(label: "idle", attributes: .initiallyInactive)
        let wait = wait()
        for _ in 0..<3 { wait.probe(queue) }
        #expect(eventually { !lines.withLock(\.isEmpty) })
        wait.watch { true }
        let end = Event()
        MonotonicClock().schedule(at: Nanoseconds.deadline(0.2, after: MonotonicClock().now)) { end.signal() }
        await end.wait()
        #expect(lines.withLock { $0 } == ["stuck"])
        queue.activate()
    }

    @Test func `a queue that runs, and a wait that has ended, are not reported`() async throws {
        let wait = wait(), end = Event()
        wait.probe(testQueue)
        wait.watch { false }
        MonotonicClock().schedule(at: Nanoseconds.deadline(0.3, after: MonotonicClock().now)) { end.signal() }
        await end.wait()
        #expect(lines.withLock { $0 } == [])
    }

    @Test func `an operation is unclaimed until it is enqueued, started, paused or promised to a queue`() throws {
        let server = try TestServer()
        let make = { HTTPRequestOperation(request: URLRequest(url: server.url("/"))) }
        let operations = (0..<4).map { _ in make() }
        #expect(operations.allSatisfy { $0.isUnclaimed })
        RequestOperationQueue().addOperation(operations[0])
        operations[1].start()
        operations[2].pause()
        operations[3].claimForLater()
        #expect(!operations.contains { $0.isUnclaimed })
    }

    /// An event that a test awaits.
    private struct Event: Sendable {
        private let stream = AsyncStream<Void>.makeStream()
        func signal() { stream.continuation.finish() }
        func wait() async { for await _ in stream.stream {} }
    }
}
