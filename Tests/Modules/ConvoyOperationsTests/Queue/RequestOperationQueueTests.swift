import ConvoySupport
import Foundation
import Synchronization
import Testing

@testable import ConvoyOperations

/// Features of Convoy's queue beyond Foundation's.
struct RequestOperationQueueTests {
    @Test func `the queue reports its actual operations and their count`() {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let operations = (0..<10).map { $0 % 2 == 0 ? ScheduledBlockOperation {} : BlockOperation {} }
        for operation in operations { queue.addOperation(operation) }
        queue.addBarrierBlock {}
        #expect(queue.queuedOperations == operations)
        #expect(queue.queuedOperationCount == 10)
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(queue.queuedOperations.isEmpty && queue.queuedOperationCount == 0)
    }

    @Test(arguments: OperationKind.allCases)
    func `an operation that has finished or is already in the queue is ignored`(kind: OperationKind) {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let finished = kind.make {}
        finished.cancel()
        finished.start()
        queue.addOperation(finished)
        let gauge = Gauge()
        let twice = kind.make { gauge.enter() }
        queue.addOperation(twice)
        queue.addOperation(twice)
        #expect(queue.queuedOperations == [twice])
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(gauge.total == 1)
    }

    @Test func `an operation that can start inline starts on the thread that adds it`() {
        let queue = RequestOperationQueue()
        let thread = Locked<Thread?>(nil)
        let operation = PausableTestOperation { _ in thread.withLock { $0 = Thread.current } }
        queue.addOperation(operation)
        #expect(thread.withLock { $0 } === Thread.current)
        operation.finish()
        #expect(drains(queue))
    }

    @Test func `a priority that is changed after adding takes effect`() {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log()
        let operations = (0..<5).map { number in ScheduledBlockOperation { log.add("\(number)") } }
        queue.addOperations(operations, waitUntilFinished: false)
        operations[3].queuePriority = .veryHigh
        operations[0].queuePriority = .veryLow
        operations[4].queuePriority = .high
        operations[4].queuePriority = .normal
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(log.all == ["3", "1", "2", "4", "0"])
    }

    @Test func `quality of service replaces an unset priority, except in a serial queue`() {
        for (limit, expected) in [(1, ["0", "1", "2"]), (2, ["1", "0", "2"])] {
            let queue = RequestOperationQueue()
            queue.maxConcurrentOperationCount = limit
            let blocker = PausableTestOperation()
            if limit == 2 { queue.addOperation(blocker) }
            queue.isSuspended = true
            let log = Log()
            for (number, quality) in [QualityOfService.default, .userInteractive, .background].enumerated() {
                let operation = PausableTestOperation {
                    log.add("\(number)")
                    $0.finish()
                }
                operation.qualityOfService = quality
                queue.addOperation(operation)
            }
            queue.isSuspended = false
            blocker.finish()
            #expect(drains(queue))
            #expect(log.all == expected)
        }
    }

    @Test func `a waiting operation rises by one priority per interval, so that none starves`() {
        let clock = ManualClock()
        let queue = RequestOperationQueue(clock: clock)
        #expect(queue.priorityAgingInterval == 30)
        queue.maxConcurrentOperationCount = 1
        let log = Log()
        func add(_ name: String, _ priority: Operation.QueuePriority) {
            let operation = PausableTestOperation { _ in log.add(name) }
            operation.queuePriority = priority
            queue.addOperation(operation)
        }
        func finishRunning() {
            for case let operation as PausableTestOperation in queue.queuedOperations where operation.isExecuting {
                return operation.finish()
            }
        }
        add("first", .normal)
        add("low", .low)
        for number in 0..<4 {
            add("urgent \(number)", .veryHigh)
            clock.advance(by: 15)
            finishRunning()
        }
        // The operation takes 60 seconds to rise from low to high. After 90 seconds, it has the highest level, behind
        // earlier operations.
        add("urgent 4", .veryHigh)
        clock.advance(by: 30)
        finishRunning()
        add("urgent 5", .veryHigh)
        while queue.queuedOperationCount > 0 { finishRunning() }
        #expect(log.all == ["first", "urgent 0", "urgent 1", "urgent 2", "urgent 3", "urgent 4", "low", "urgent 5"])
    }

    @Test func `a cancelled operation behind a barrier does not wait for it`() {
        let queue = RequestOperationQueue()
        let first = PausableTestOperation()
        queue.addOperation(first)
        let barrier = Door()
        queue.addBarrierBlock { barrier.open() }
        let second = PausableTestOperation()
        queue.addOperation(second)
        #expect(!second.isExecuting)
        second.cancel()
        #expect(second.isFinished)
        first.finish()
        #expect(drains(queue))
        #expect(barrier.wait())
    }

    @Test func `a cancelled barrier does not run and releases the operations behind it`() {
        let queue = RequestOperationQueue()
        let first = PausableTestOperation()
        queue.addOperation(first)
        let log = Log()
        queue.addBarrierBlock { log.add("barrier") }
        queue.cancelAllOperations()
        queue.addBarrierBlock { log.add("second") }
        queue.addOperation { log.add("after") }
        #expect(drains(queue))
        #expect(log.all == ["second", "after"])
    }

    @Test func `a dependency that finishes later does not affect a cancelled foreign operation`() {
        let queue = RequestOperationQueue()
        let dependency = ScheduledBlockOperation {}
        for number in 0..<200 {
            let operation = BlockOperation {}
            operation.addDependency(dependency)
            if number % 2 == 0 { operation.cancel() }
            queue.addOperation(operation)
            operation.cancel()
        }
        #expect(drains(queue))
        queue.addOperation(dependency)
        #expect(drains(queue))
    }

    @Test func `blocked operations do not delay operations that start inline`() {
        let queue = RequestOperationQueue()
        let door = Door()
        for _ in 0..<100 { queue.addOperation { door.wait() } }
        let operation = PausableTestOperation { $0.finish() }
        queue.addOperation(operation)
        #expect(operation.isFinished)
        door.open()
        #expect(drains(queue))
    }

    @Test func `a worker blocked in one operation delays no other`() {
        let queue = RequestOperationQueue()
        let (begun, door) = (Door(), Door())
        queue.addOperation {
            begun.open()
            door.wait()
        }
        #expect(begun.wait())
        let others = (0..<20).map { _ in ScheduledBlockOperation {} }
        queue.addOperations(others, waitUntilFinished: false)
        for other in others { #expect(returns { other.waitUntilFinished() }) }
        door.open()
        #expect(drains(queue))
    }
}
