import Foundation
import Testing

@testable import ConvoyOperations

/// Promise 6: a paused operation returns its slot, and the limits of a queue hold at every moment. `QueueStressTests` checks
/// them under concurrent calls, `MixedStormTests` with requests.
struct SlotTests {
    @Test func `a limit per host applies without delaying other hosts`() {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCountPerHost = 2
        let (a, b) = (
            (0..<6).map { _ in PausableTestOperation(host: "a") }, (0..<3).map { _ in PausableTestOperation(host: "b") }
        )
        queue.addOperations(a + b, waitUntilFinished: false)
        #expect(a.map(\.isExecuting) == [true, true, false, false, false, false])
        #expect(b.map(\.isExecuting) == [true, true, false])
        a[1].finish()
        #expect(a[2].isExecuting && !a[3].isExecuting && !b[2].isExecuting)
        queue.maxConcurrentOperationCountPerHost = 3
        #expect(a[3].isExecuting && b[2].isExecuting && !a[4].isExecuting)
        for operation in a + b { operation.finish() }
        for operation in a { operation.finish() }
        #expect(drains(queue))
    }

    @Test func `a paused operation returns its slot, and a resumed one waits for a slot`() {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let gauge = Gauge()
        let (first, second) = (PausableTestOperation(gauge: gauge), PausableTestOperation(gauge: gauge))
        queue.addOperations([first, second], waitUntilFinished: false)
        #expect(first.isExecuting && !second.isExecuting)
        first.pause()
        #expect(!first.isExecuting && second.isExecuting)
        first.resume()
        #expect(!first.isExecuting && first.current == .ready)
        second.finish()
        #expect(first.isExecuting)
        first.finish()
        #expect(drains(queue))
        #expect(gauge.most == 1)
    }

    @Test func `pauseAll pauses running and waiting operations, and resumeAll continues them`() {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 3
        let operations = (0..<8).map { _ in PausableTestOperation() }
        queue.addOperations(operations, waitUntilFinished: false)
        queue.pauseAll()
        #expect(operations.filter { $0.current == .paused }.count == 8)
        queue.resumeAll()
        #expect(operations.filter { $0.isExecuting }.count == 3)
        while let running = operations.first(where: { $0.isExecuting }) { running.finish() }
        #expect(drains(queue))
        #expect(operations.filter { $0.timesFinished == 1 }.count == 8)
    }

    @Test func `a paused operation that is cancelled finishes`() {
        let queue = RequestOperationQueue()
        let operation = PausableTestOperation()
        queue.addOperation(operation)
        operation.pause()
        operation.cancel()
        #expect(drains(queue))
        #expect(operation.timesFinished == 1)
    }
}
