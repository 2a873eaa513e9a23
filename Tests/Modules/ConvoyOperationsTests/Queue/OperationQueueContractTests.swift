import ConvoySupport
import Foundation
import Synchronization
import Testing

@testable import ConvoyOperations

/// The contract shared by Foundation's queue and Convoy's. Each test runs with both.
@Suite(.serialized)
struct OperationQueueContractTests {
    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `every added operation runs once`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let gauge = Gauge()
        let operations = (0..<500).map { _ in
            kind.make {
                gauge.enter()
                gauge.leave()
            }
        }
        for operation in operations { queue.addOperation(operation) }
        #expect(drains(queue))
        #expect(gauge.total == 500)
        #expect(operations.areAllFinished)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `a serial queue runs operations in the order in which they were added`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        queue.maxConcurrentOperationCount = 1
        let log = Log()
        for number in 0..<200 { queue.addOperation(kind.make { log.add("\(number)") }) }
        #expect(drains(queue))
        #expect(log.all == (0..<200).map(String.init))
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `priorities are served strictly, and in order within a priority`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log()
        let priorities: [(Operation.QueuePriority, String)] = [
            (.veryLow, "e"), (.low, "d"), (.normal, "c"), (.high, "b"), (.veryHigh, "a"),
        ]
        for round in 0..<3 {
            for (priority, name) in priorities {
                let operation = kind.make { log.add("\(name)\(round)") }
                operation.queuePriority = priority
                queue.addOperation(operation)
            }
        }
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(log.all == log.all.sorted())
        #expect(log.all.count == 15)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `the concurrency limit is respected and fully used`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        queue.maxConcurrentOperationCount = 2
        let gauge = Gauge()
        let met = Door()
        for number in 0..<50 {
            queue.addOperation(
                kind.make {
                    gauge.enter()
                    if gauge.now == 2 { met.open() }
                    if number == 0 { met.wait() }
                    gauge.leave()
                })
        }
        #expect(drains(queue))
        #expect(gauge.most == 2)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `a limit of zero starts nothing, and raising it starts operations`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        queue.maxConcurrentOperationCount = 0
        #expect(queue.maxConcurrentOperationCount == 0)
        let gauge = Gauge()
        for _ in 0..<10 { queue.addOperation(kind.make { gauge.enter() }) }
        #expect(gauge.total == 0)
        queue.maxConcurrentOperationCount = OperationQueue.defaultMaxConcurrentOperationCount
        #expect(queue.maxConcurrentOperationCount == -1)
        #expect(drains(queue))
        #expect(gauge.total == 10)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `a suspended queue starts nothing, and running operations continue`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let (begun, goOn) = (Door(), Door())
        let first = kind.make {
            begun.open()
            goOn.wait()
        }
        queue.addOperation(first)
        #expect(begun.wait())
        queue.isSuspended = true
        let second = kind.make {}
        queue.addOperation(second)
        goOn.open()
        #expect(returns { first.waitUntilFinished() })
        #expect(!second.isFinished && !second.isExecuting)
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(second.isFinished)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `dependencies run first, including those in other queues`(queueKind: QueueKind, kind: OperationKind) {
        let queues = [queueKind.make(), QueueKind.foundation.make(), QueueKind.convoy.make()]
        let log = Log()
        var operations: [Operation] = []
        for number in 0..<120 {
            let operation = (number % 5 == 4 ? OperationKind.block : kind).make { log.add("\(number)") }
            if let last = operations.last { operation.addDependency(last) }
            operations.append(operation)
        }
        // Add the operations in reverse order, so that each operation waits when it is added.
        for (number, operation) in operations.enumerated().reversed() { queues[number % 3].addOperation(operation) }
        for queue in queues { #expect(drains(queue)) }
        #expect(log.all == (0..<120).map(String.init))
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `an operation waits for all its dependencies`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let gauge = Gauge()
        let seen = Atomic<Int>(-1)
        let last = kind.make { seen.store(gauge.total, ordering: .sequentiallyConsistent) }
        let others = (0..<100).map { number in (number % 2 == 0 ? kind : .block).make { gauge.enter() } }
        for other in others { last.addDependency(other) }
        queue.addOperation(last)
        queue.addOperations(others, waitUntilFinished: false)
        #expect(drains(queue))
        #expect(seen.load(ordering: .sequentiallyConsistent) == 100)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `a cancelled operation neither waits for dependencies nor runs`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let log = Log()
        let never = kind.make {}
        let waiting = kind.make { log.add("ran") }
        waiting.addDependency(never)
        queue.addOperation(waiting)
        waiting.cancel()
        #expect(returns { waiting.waitUntilFinished() })
        #expect(drains(queue))
        #expect(log.all.isEmpty)
        #expect(waiting.isCancelled && waiting.isFinished && !never.isFinished)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `the dependents of a cancelled operation run`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let log = Log()
        let first = kind.make { log.add("first") }
        let second = kind.make { log.add("second") }
        second.addDependency(first)
        first.cancel()
        queue.addOperations([second, first], waitUntilFinished: false)
        #expect(drains(queue))
        #expect(log.all == ["second"])
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `cancelAllOperations cancels waiting and running operations`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        queue.isSuspended = true
        let gauge = Gauge()
        let operations = (0..<50).map { _ in kind.make { gauge.enter() } }
        for (number, operation) in operations.enumerated() where number % 3 == 1 {
            operation.addDependency(operations[number - 1])
        }
        queue.addOperations(operations, waitUntilFinished: false)
        queue.cancelAllOperations()
        #expect(operations.areAllCancelled)
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(gauge.total == 0)
        #expect(operations.areAllFinished)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `addOperations waits if requested`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let operations = (0..<50).map { _ in kind.make {} }
        #expect(returns { queue.addOperations(operations, waitUntilFinished: true) })
        #expect(operations.areAllFinished)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `a barrier runs between operations added before and after it`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let log = Log()
        let goOn = Door()
        queue.addOperation(kind.make { goOn.wait() })
        for _ in 0..<20 { queue.addOperation(kind.make { log.add("1 before") }) }
        queue.addBarrierBlock { log.add("2 barrier") }
        for _ in 0..<20 { queue.addOperation(kind.make { log.add("3 after") }) }
        goOn.open()
        #expect(drains(queue))
        #expect(log.all.count == 41)
        #expect(log.all == log.all.sorted())
    }

    @Test(arguments: QueueKind.allCases)
    func `the progress counts operations once it has a total`(queueKind: QueueKind) {
        let queue = queueKind.make()
        queue.maxConcurrentOperationCount = 1
        queue.progress.totalUnitCount = 10
        for _ in 0..<10 { queue.addOperation(BlockOperation {}) }
        #expect(drains(queue))
        #expect(queue.progress.fractionCompleted == 1)
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `completion blocks run, including those of cancelled operations`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let (first, second) = (Door(), Door())
        let operation = kind.make {}
        operation.completionBlock = { first.open() }
        let cancelled = kind.make {}
        cancelled.completionBlock = { second.open() }
        cancelled.cancel()
        queue.addOperations([operation, cancelled], waitUntilFinished: false)
        #expect(first.wait() && second.wait())
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `OperationQueue.current is the queue that runs the operation`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let found = Locked<ObjectIdentifier?>(nil)
        queue.addOperation(kind.make { found.withLock { $0 = OperationQueue.current.map { ObjectIdentifier($0) } } })
        #expect(drains(queue))
        #expect(found.withLock { $0 } == ObjectIdentifier(queue))
    }

    @Test(arguments: QueueKind.allCases)
    func `an asynchronous operation holds its slot until it has finished`(queueKind: QueueKind) {
        let queue = queueKind.make()
        queue.maxConcurrentOperationCount = 1
        let first = ForeignAsyncOperation()
        let second = BlockOperation {}
        queue.addOperations([first, second], waitUntilFinished: false)
        #expect(first.started.wait())
        #expect(!second.isFinished)
        first.finish()
        #expect(drains(queue))
        #expect(second.isFinished)
    }

    @Test(arguments: QueueKind.allCases)
    func `the queue waits for an operation's own readiness, without using a slot`(queueKind: QueueKind) {
        let queue = queueKind.make()
        queue.maxConcurrentOperationCount = 1
        let picky = ForeignAsyncOperation()
        picky.allow(false)
        queue.addOperation(picky)
        let other = BlockOperation {}
        queue.addOperation(other)
        #expect(returns { other.waitUntilFinished() })
        #expect(!picky.isExecuting)
        picky.allow(true)
        #expect(picky.started.wait())
        picky.finish()
        #expect(drains(queue))
    }

    @Test(arguments: QueueKind.allCases)
    func `readiness that changes while the queue is suspended is respected`(queueKind: QueueKind) {
        let queue = queueKind.make()
        queue.isSuspended = true
        let picky = ForeignAsyncOperation()
        queue.addOperation(picky)
        picky.allow(false)
        queue.isSuspended = false
        let other = BlockOperation {}
        queue.addOperation(other)
        #expect(returns { other.waitUntilFinished() })
        #expect(!picky.isExecuting && !picky.isFinished)
        picky.allow(true)
        #expect(picky.started.wait())
        picky.finish()
        #expect(drains(queue))
    }

    @Test(arguments: QueueKind.allCases, OperationKind.allCases)
    func `operations can add operations and wait for them`(queueKind: QueueKind, kind: OperationKind) {
        let queue = queueKind.make()
        let log = Log()
        queue.addOperation(
            kind.make {
                let inner = kind.make { log.add("inner") }
                queue.addOperation(inner)
                inner.waitUntilFinished()
                log.add("outer")
            })
        #expect(drains(queue))
        #expect(log.all == ["inner", "outer"])
    }

    @Test(arguments: QueueKind.allCases)
    func `a name and an underlying queue are kept and used`(queueKind: QueueKind) {
        let queue = queueKind.make()
        queue.name = "downloads"
        #expect(queue.name == "downloads")
        queue.qualityOfService = .utility
        #expect(queue.qualityOfService == .utility)
        let serial = DispatchQueue(label: "serial")
        queue.underlyingQueue = serial
        #expect(queue.underlyingQueue === serial)
        let gauge = Gauge()
        for _ in 0..<50 {
            queue.addOperation {
                dispatchPrecondition(condition: .onQueue(serial))
                gauge.enter()
                gauge.leave()
            }
        }
        #expect(drains(queue))
        #expect(gauge.most == 1 && gauge.total == 50)
    }
}
