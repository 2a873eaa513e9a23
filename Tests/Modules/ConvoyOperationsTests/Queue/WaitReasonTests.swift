import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that a program that seems to hang can find out what its operations wait for.
struct WaitReasonTests {
    private let clock = ManualClock()
    private let queue: RequestOperationQueue

    init() {
        queue = RequestOperationQueue(clock: clock)
        queue.name = "test"
    }

    private func operation(host: String? = "a.example", waitsAtGate: Bool = false) -> PausableTestOperation {
        PausableTestOperation(host: host, waitsAtGate: waitsAtGate)
    }

    // MARK: Reasons

    @Test func `an operation that was not started waits for its start`() {
        let operation = ScheduledBlockOperation {}
        #expect(operation.waitReason == .start)
        operation.start()
        #expect(operation.waitReason == nil && operation.isFinished)
    }

    @Test func `each limit of a queue is a reason to wait`() {
        queue.maxConcurrentOperationCount = 3
        queue.maxConcurrentOperationCountPerHost = 2
        let operations = [operation(), operation(), operation(), operation(host: "b.example"), operation(host: nil)]
        queue.addOperations(operations, waitUntilFinished: false)
        #expect(operations.map(\.waitReason) == [nil, nil, .hostLimit, nil, .slot])
        queue.isSuspended = true
        #expect(operations.map(\.waitReason) == [nil, nil, .suspendedQueue, nil, .suspendedQueue])
        queue.isSuspended = false
        operations[0].finish()
        operations[3].finish()
        #expect(operations.map(\.waitReason) == [nil, nil, nil, nil, nil])
    }

    @Test func `a start rate is a reason to wait`() {
        queue.maximumStartRate = StartRate(perSecond: 1)
        let operations = [operation(), operation(), operation(host: nil)]
        queue.addOperations(operations, waitUntilFinished: false)
        #expect(operations.map(\.waitReason) == [nil, .startRate, nil])
        clock.advance(by: 1)
        #expect(operations[1].waitReason == nil)
    }

    @Test func `a dependency, a pause, an own condition and a barrier are reasons to wait`() {
        let (first, second, unready) = (operation(), operation(), operation())
        second.addDependency(first)
        unready.pause()
        queue.addOperations([first, second, unready], waitUntilFinished: false)
        queue.addBarrierBlock {}
        let late = operation()
        queue.addOperation(late)
        #expect([first, second, unready, late].map(\.waitReason) == [nil, .dependencies, .condition, .barrier])
        first.finish()
        #expect(second.waitReason == nil)
        let request = HTTPRequestOperation(request: URLRequest(url: URL(fileURLWithPath: "/")))
        request.pause()
        queue.addOperation(request)
        #expect(request.waitReason == .pause)
    }

    @Test func `a redirected operation waits for the limit of the new host`() {
        queue.maxConcurrentOperationCountPerHost = 1
        let (redirected, other) = (operation(host: "a.example"), operation(host: "b.example"))
        queue.addOperations([redirected, other], waitUntilFinished: false)
        queue.scheduler.redirect(redirected, to: "b.example", if: { true }, then: {})
        #expect(redirected.waitReason == .hostLimit)
        other.finish()
        #expect(redirected.waitReason == nil)
    }

    // MARK: Programs that hang

    @Test func `the description of a queue shows a dependency that nothing starts`() {
        let (unstarted, waiting) = (operation(), operation())
        waiting.addDependency(unstarted)
        queue.addOperation(waiting)
        #expect(
            queue.description == """
                RequestOperationQueue "test": 0 running, 1 waiting
                  1 waiting: dependencies, 1 for an operation that was not started
                  a.example: 0 running, 1 waiting
                """)
    }

    @Test func `the description of a queue shows what an operation of another class waits for`() {
        let (unstarted, waiting) = (operation(), BlockOperation {})
        waiting.addDependency(unstarted)
        queue.addOperation(waiting)
        #expect(
            queue.description == """
                RequestOperationQueue "test": 0 running, 1 waiting
                  1 waiting: dependencies, 1 for an operation that was not started
                """)
        waiting.cancel()
        #expect(drains(queue))
    }

    @Test func `the description of a queue names some hosts, and counts the others`() {
        for number in 10..<40 { queue.closeGate(forHost: "\(number).example", until: 30_000_000_000) }
        let lines = queue.description.split(separator: "\n")
        #expect(lines.count == 22)
        #expect(lines.last == "  and 10 other hosts")
    }

    @Test func `the description of a queue shows that it is suspended`() {
        queue.isSuspended = true
        queue.addOperations([operation(), BlockOperation {}], waitUntilFinished: false)
        #expect(
            queue.description == """
                RequestOperationQueue "test" (suspended): 0 running, 2 waiting
                  2 waiting: suspendedQueue
                  a.example: 0 running, 1 waiting
                """)
    }

    @Test func `the description of a queue shows a closed gate`() {
        queue.closeGate(forHost: "a.example", until: 30_000_000_000)
        let operations = [operation(waitsAtGate: true), operation(waitsAtGate: true), operation(host: "b.example")]
        queue.addOperations(operations, waitUntilFinished: false)
        #expect(
            queue.description == """
                RequestOperationQueue "test": 1 running, 2 waiting
                  2 waiting: closedGate
                  a.example: 0 running, 2 waiting, gate closed for 30 s
                  b.example: 1 running, 0 waiting
                """)
    }

    @Test func `the description of a queue counts operations of other classes`() {
        let (blocked, waiting) = (ForeignAsyncOperation(), ForeignAsyncOperation())
        blocked.allow(false)
        waiting.addDependency(blocked)
        queue.addOperations([blocked, waiting], waitUntilFinished: false)
        #expect(
            queue.description == """
                RequestOperationQueue "test": 0 running, 2 waiting
                  1 waiting: dependencies
                  1 waiting: condition
                """)
        for operation in [blocked, waiting] { operation.cancel() }
        blocked.allow(true)
        #expect(drains(queue))
    }

    @Test func `an empty queue has a short description`() {
        #expect(RequestOperationQueue().description == "RequestOperationQueue: 0 running, 0 waiting")
    }
}
