import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The time limit of the whole operation. It ends the operation in every state, but not as cancelled.
@Suite struct ResourceTimeoutTests {
    private let network = ThreadedTransport()
    private let clock = ManualClock()

    private func operation(_ seconds: TimeInterval? = 100) -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(
            request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network, clock: clock)
        operation.completionQueue = testQueue
        operation.totalTimeout = seconds
        return operation
    }

    private func expectTimedOut(_ operation: HTTPRequestOperation, _ failures: Log) {
        network.queue.sync {}
        #expect(operation.isFinished && !operation.isCancelled)
        #expect((operation.error as? URLError)?.code == .timedOut)
        #expect(operation.responseData == nil && operation.responseObject == nil)
        testQueue.sync {}
        #expect(failures.all == ["failure"])
    }

    private func failures(of operation: HTTPRequestOperation) -> Log {
        let log = Log()
        operation.setCompletionHandler(
            success: { _, _ in log.add("success") }, failure: { _, _ in log.add("failure") })
        return log
    }

    enum Point: CaseIterable { case executing, paused, resumedAndWaitingForASlot, backingOff }

    @Test(arguments: Point.allCases) func `the timeout ends a started operation`(point: Point) {
        let operation = operation()
        let failures = failures(of: operation)
        operation.retryPolicy = RetryPolicy(maximumRetryCount: 100)
        operation.retryPolicy?.budget = nil
        operation.retryPolicy?.initialDelay = 1e6
        operation.retryPolicy?.maximumDelay = 1e6
        let queue = RequestOperationQueue()
        queue.addOperation(operation)
        network.queue.sync {}
        switch point {
        case .executing: break
        case .paused: operation.pause()
        case .resumedAndWaitingForASlot:
            operation.pause()
            queue.isSuspended = true
            operation.resume()
        case .backingOff:
            // The delay after a failure is random, so repeat until it is long enough.
            repeat {
                clock.advance(by: 0)
                network.end(with: URLError(.networkConnectionLost))
            } while operation.state == .executing
        }
        network.queue.sync {}
        let dependent = BlockOperation {}
        dependent.addDependency(operation)
        let other = OperationQueue()
        other.addOperation(dependent)
        clock.advance(by: 99)
        #expect(!operation.isFinished)
        clock.advance(by: 2)
        expectTimedOut(operation, failures)
        #expect(drains(other))
        #expect(queue.queuedOperationCount == 0)
    }

    @Test(arguments: [false, true]) func `the timeout ends an operation that its queue has not started`(isPaused: Bool) {
        let operation = operation()
        let failures = failures(of: operation)
        operation.addDependency(BlockOperation {})
        let queue = RequestOperationQueue()
        queue.addOperation(operation)
        if isPaused { operation.pause() }
        // A queue does this at the closed gate of a host, any number of times.
        for _ in 0..<3 { operation.beginResourceTimeout() }
        #expect(clock.timerCount == 1)
        clock.advance(by: 99)
        #expect(!operation.isFinished)
        clock.advance(by: 2)
        expectTimedOut(operation, failures)
        #expect(network.connectionCount == 0 && queue.queuedOperationCount == 0)
    }

    @Test func `the timeout covers retries and pauses from the first start`() {
        let operation = operation()
        let failures = failures(of: operation)
        operation.retryPolicy = RetryPolicy(maximumRetryCount: 100)
        operation.retryPolicy?.budget = nil
        operation.start()
        for _ in 0..<9 {
            network.queue.sync {}
            clock.advance(by: 5)
            network.end(with: URLError(.networkConnectionLost))
            operation.pause()
            clock.advance(by: 5)
            operation.resume()
            if operation.state != .executing { operation.start() }
        }
        #expect(!operation.isFinished)
        network.queue.sync {}
        clock.advance(by: 11)
        expectTimedOut(operation, failures)
    }

    @Test func `an outcome that arrives before the timeout is kept`() {
        let operation = operation()
        network.serve()
        operation.start()
        network.queue.sync {}
        #expect(operation.isFinished && operation.error == nil)
        clock.advance(by: 1_000)
        #expect(operation.error == nil && operation.responseData == ThreadedTransport.body)
    }

    @Test func `cancelling after the timeout still marks the operation as cancelled`() {
        let operation = operation()
        network.beSlowToCancel()
        operation.start()
        network.queue.sync {}
        clock.advance(by: 101)
        #expect(!operation.isFinished)
        operation.cancel()
        network.serve()
        network.queue.sync {}
        #expect(operation.isCancelled && (operation.error as? URLError)?.code == .cancelled)
    }

    @Test(arguments: [nil, 0, -1, -.infinity, .infinity, .nan, .signalingNaN] as [TimeInterval?])
    func `an infinite or invalid timeout sets no timer`(seconds: TimeInterval?) {
        let operation = operation(seconds)
        operation.start()
        #expect(clock.timerCount == 0)
    }

    @Test(arguments: [.leastNonzeroMagnitude, 1e-12, 1e18, 1e300, .greatestFiniteMagnitude] as [TimeInterval])
    func `any positive number of seconds is a valid timeout`(seconds: TimeInterval) {
        let operation = operation(seconds)
        operation.start()
        #expect(clock.timerCount == 1)
        network.queue.sync {}
        clock.advance(by: 1)
        network.queue.sync {}
        #expect(operation.isFinished == (seconds < 1))
    }

    @Test func `the timer does not outlive an operation that never ends`() {
        do {
            let operation = operation()
            operation.addDependency(BlockOperation {})
            operation.beginResourceTimeout()
            #expect(clock.timerCount == 1)
        }
        #expect(eventually { clock.timerCount == 0 })
    }

    @Test func `the timer does not retain the operation`() {
        weak var left: HTTPRequestOperation?
        network.serve()
        do {
            let operation = operation()
            operation.start()
            left = operation
        }
        network.queue.sync {}
        #expect(eventually { left == nil })
        #expect(clock.timerCount == 0)
    }

    @Test func `a manager passes its timeout to its operations, and a copy keeps it`() throws {
        let manager = HTTPRequestOperationManager()
        #expect(manager.totalTimeout == nil)
        manager.totalTimeout = 12.5
        let operation = manager.makeOperation(request: URLRequest(url: URL(fileURLWithPath: "/")))
        #expect(operation.totalTimeout == 12.5)
        #expect(operation.makeCopy().totalTimeout == 12.5)
    }

    @Test func `the timeout ends an operation on a real server that stalls`() throws {
        let server = try TestServer()
        server.route("GET", "/stalls", .pattern(count: 1 << 20).stalls(afterBytes: 4096))
        let probe = Probe(server.url("/stalls"))
        probe.operation.totalTimeout = 0.3
        probe.operation.start()
        #expect(probe.outcome() == ["failure \(URLError.timedOut.rawValue)", "completion"])
    }
}
