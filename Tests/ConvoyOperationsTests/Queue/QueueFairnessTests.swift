import Foundation
import Testing

@testable import ConvoyOperations

struct QueueFairnessTests {
    /// Time in steps: a slow operation takes 100 of them, a fast one takes one. Returns how many slow
    /// ones had finished when the last fast one did.
    private func slowBeforeFast(limit: Int) -> Int {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = limit
        let slow = (0..<1_000).map { _ in PausableTestOperation(host: "slow") }
        let fast = (0..<100).map { _ in PausableTestOperation(host: "fast") }
        queue.addOperations(slow + fast, waitUntilFinished: false)
        var began: [ObjectIdentifier: Int] = [:]
        var step = 0
        while fast.contains(where: { !$0.isFinished }) {
            step += 1
            for (operations, duration) in [(slow, 100), (fast, 1)] {
                for operation in operations where operation.isExecuting {
                    let start = began[ObjectIdentifier(operation)] ?? step
                    began[ObjectIdentifier(operation)] = start
                    if step - start >= duration { operation.finish() }
                }
            }
        }
        let finished = slow.filter { $0.isFinished }.count
        queue.cancelAllOperations()
        #expect(drains(queue))
        return finished
    }

    @Test(arguments: [2, 4, 6, 16])
    func `a thousand for a slow host do not delay a hundred for a fast one`(limit: Int) {
        #expect(slowBeforeFast(limit: limit) < 50)
    }

    @Test func `hosts with equal shares are served in turn`() {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log()
        for host in ["a", "b", "c"] {
            for _ in 0..<3 {
                queue.addOperation(
                    PausableTestOperation(host: host) {
                        log.add(host)
                        $0.finish()
                    })
            }
        }
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(log.all == ["a", "b", "c", "a", "b", "c", "a", "b", "c"])
    }

    @Test func `priority comes before fairness`() {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log()
        for (host, priority) in [("b", Operation.QueuePriority.normal), ("a", .high), ("a", .high)] {
            let operation = PausableTestOperation(host: host) {
                log.add(host)
                $0.finish()
            }
            operation.queuePriority = priority
            queue.addOperation(operation)
        }
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(log.all == ["a", "a", "b"])
    }
}
