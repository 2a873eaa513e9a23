import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests that the timers of a clock end together with their purpose.
@Suite struct TimerQueueTests {
    private let clock = TimerQueue()
    private static let hour: UInt64 = 3_600_000_000_000

    private func deadline(hours: UInt64) -> UInt64 { clock.now + hours * Self.hour }

    @Test func `timers fire on time regardless of earlier and cancelled timers`() {
        var timers: [any ClockTimer] = []
        let wrong = Atomic<Int>(0)
        for hours: UInt64 in [3, 2, 1, 4] {
            timers.append(clock.schedule(at: deadline(hours: hours)) { wrong.add(1, ordering: .relaxed) })
        }
        let (first, second, third) = (Signal(), Signal(), Signal())
        clock.schedule(at: clock.now + 30_000_000) { second.fire() }
        clock.schedule(at: clock.now + 10_000_000) { first.fire() }
        clock.schedule(at: clock.now) { third.fire() }
        let early = clock.schedule(at: clock.now + 20_000_000_000) { wrong.add(1, ordering: .relaxed) }
        early.cancel()
        #expect(first.wait() && second.wait() && third.wait())
        #expect(clock.count == 4)
        for timer in timers + timers { timer.cancel() }
        #expect(clock.count == 0 && wrong.load(ordering: .relaxed) == 0)
        let again = Signal()
        clock.schedule(at: clock.now + 10_000_000) { again.fire() }
        #expect(again.wait() && clock.count == 0)
    }

    @Test func `a cancelled timer releases its block immediately`() {
        final class Held: Sendable {}
        weak var left: Held?
        do {
            let held = Held()
            left = held
            clock.schedule(at: deadline(hours: 1)) { withExtendedLifetime(held) {} }.cancel()
        }
        #expect(left == nil)
    }

    @Test func `cancelling timers takes roughly linear time`() {
        let times = [5_000, 20_000].map { count in
            let clock = TimerQueue()
            return leastThreadTime {
                let timers = (0..<count).map { clock.schedule(at: Self.hour * 100 + clock.now &+ UInt64($0)) {} }
                for timer in timers { timer.cancel() }
                #expect(clock.count == 0)
            }
        }
        #expect(times[1] < times[0] * 9, "\(times)")
    }

    @Test func `a clock holds no timer after operations with a timeout have finished`() async throws {
        let server = try TestServer()
        server.route("GET", "/x", .text("x"))
        server.route("GET", "/stalls", .pattern(count: 1 << 20).stalls(afterBytes: 4096))
        let operations = (0..<120).map { index in
            let path = index % 3 == 0 ? "/stalls" : "/x"
            let operation = HTTPRequestOperation(
                request: URLRequest(url: server.url(path)), transport: NetworkThread.shared, clock: clock)
            operation.completionQueue = testQueue
            operation.totalTimeout = 3600
            return operation
        }
        let queue = RequestOperationQueue()
        queue.addOperations(operations, waitUntilFinished: false)
        for operation in operations where operation.request.url?.path == "/stalls" {
            #expect(eventually { operation.isExecuting })
            operation.cancel()
        }
        for operation in operations { _ = try? await operation.finished() }
        #expect(operations.allSatisfy { $0.isFinished })
        #expect(clock.count == 0)
    }

    @Test func `a retry wait that ends early leaves no timer`() async throws {
        let server = try TestServer()
        server.route("GET", "/busy", .status(503, headers: ["Retry-After": "1000"]))
        let operations = (0..<10).map { _ in
            let operation = HTTPRequestOperation(
                request: URLRequest(url: server.url("/busy")), transport: NetworkThread.shared, clock: clock)
            operation.completionQueue = testQueue
            operation.retryPolicy = RetryPolicy(maximumRetryCount: 3)
            operation.retryPolicy?.maximumGateDuration = 0
            operation.retryPolicy?.budget = nil
            return operation
        }
        for operation in operations { operation.start() }
        #expect(eventually { clock.count == 10 })
        for operation in operations.prefix(5) { operation.pause() }
        #expect(clock.count == 5)
        for operation in operations { operation.cancel() }
        for operation in operations { _ = try? await operation.finished() }
        #expect(clock.count == 0)
    }

    @Test func `a host's gate has one timer, which ends when the gate opens or the queue is released`() {
        let clock = ManualClock()
        do {
            let queue = RequestOperationQueue(clock: clock)
            for seconds in 1...20 as ClosedRange<UInt64> {
                queue.closeGate(forHost: "a", until: seconds * 1_000_000_000)
                queue.closeGate(forHost: "b", until: seconds * 1_000_000_000)
            }
            #expect(clock.timerCount == 2)
            #expect(queue.openGate(forHost: "a") && clock.timerCount == 1)
            queue.closeGate(forHost: "a", until: 5_000_000_000)
            #expect(clock.timerCount == 2)
            clock.advance(by: 6)
            #expect(queue.closedGates.map(\.host) == ["b"] && clock.timerCount == 1)
            queue.openAllGates()
            #expect(queue.closedGates.isEmpty && clock.timerCount == 0)
            queue.closeGate(forHost: "a", until: 50_000_000_000)
            #expect(clock.timerCount == 1)
        }
        #expect(eventually { clock.timerCount == 0 })
    }
}
