import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyOperations

struct QueueFairnessTests {
    /// Runs operations in simulated steps: a slow operation takes 100 steps, and a fast one takes one. Returns the
    /// number of slow operations that had finished before the last fast one.
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
    func `a thousand operations for a slow host do not delay a hundred for a fast one`(limit: Int) {
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

    /// The result is compared with a search among all hosts, which needs no heap.
    @Test func `the host with the fewest running operations is next, then the one served longest ago`() {
        var random = SplitMix64.printingSeed()
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 5
        queue.isSuspended = true
        let hosts = 0..<12
        let started = Locked<[(host: Int, operation: PausableTestOperation)]>([])
        var waiting = hosts.map { _ in 0 }, running = waiting, served = waiting
        func add(_ host: Int) {
            waiting[host] += 1
            queue.addOperation(
                PausableTestOperation(host: "\(host)") { operation in started.withLock { $0.append((host, operation)) } })
        }
        /// Returns whether an operation is started and belongs to the expected host.
        func isNext(_ number: Int) -> Bool {
            guard eventually({ started.withLock { $0.count > number } }) else { return false }
            let host = started.withLock { $0[number].host }
            let best = hosts.filter { waiting[$0] > 0 }.map { (running[$0], served[$0]) }.min { $0 < $1 }
            let isRight = best.map { $0 == (running[host], served[host]) } == true
            waiting[host] -= 1
            running[host] += 1
            served[host] = number + 1
            return isRight
        }
        for _ in 0..<60 { add(.random(in: hosts, using: &random)) }
        queue.isSuspended = false
        var working = Array(0..<5)
        for number in working {
            let isRight = isNext(number)
            #expect(isRight)
        }
        for number in 5..<300 {
            if number % 10 > 0 { add(.random(in: hosts, using: &random)) }
            let ended = working.remove(at: .random(in: working.indices, using: &random))
            let (host, operation) = started.withLock { $0[ended] }
            running[host] -= 1
            operation.finish()
            let isRight = isNext(number)
            #expect(isRight)
            working.append(number)
        }
        queue.cancelAllOperations()
        #expect(drains(queue))
    }

    @Test func `priority takes precedence over fairness`() {
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
