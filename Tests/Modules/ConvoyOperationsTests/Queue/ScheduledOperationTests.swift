import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

struct ScheduledOperationTests {
    @Test func `a dependency is listed once, in order, and can be removed`() {
        let operation = ScheduledBlockOperation {}
        let others: [Operation] = (0..<40).map { $0 % 2 == 0 ? ScheduledBlockOperation {} : BlockOperation {} }
        for other in others + others { operation.addDependency(other) }
        #expect(operation.dependencies == others)
        #expect(!operation.isReady)
        for other in others.dropLast() { operation.removeDependency(other) }
        #expect(operation.dependencies == others.suffix(1))
        #expect(!operation.isReady)
        operation.removeDependency(others[39])
        operation.removeDependency(others[39])
        #expect(operation.dependencies.isEmpty && operation.isReady)
    }

    @Test(arguments: [true, false])
    func `removing an unfinished dependency lets an enqueued operation run`(isForeign: Bool) {
        let queue = RequestOperationQueue()
        let never: Operation = isForeign ? BlockOperation {} : ScheduledBlockOperation {}
        let operation = ScheduledBlockOperation {}
        operation.addDependency(never)
        queue.addOperation(operation)
        #expect(!operation.isFinished)
        operation.removeDependency(never)
        #expect(drains(queue))
        #expect(operation.isFinished)
    }

    @Test func `removing an unfinished dependency also works in a Foundation queue`() {
        let queue = OperationQueue()
        let never = BlockOperation {}
        let operation = ScheduledBlockOperation {}
        operation.addDependency(never)
        queue.addOperation(operation)
        operation.removeDependency(never)
        #expect(drains(queue))
    }

    @Test(arguments: QueueKind.allCases)
    func `a dependency added to an enqueued operation delays it`(kind: QueueKind) {
        let queue = kind.make()
        queue.isSuspended = true
        let log = Log()
        let first = BlockOperation { log.add("first") }
        let operation = ScheduledBlockOperation { log.add("second") }
        queue.addOperation(operation)
        operation.addDependency(first)
        queue.isSuspended = false
        queue.addOperation(first)
        #expect(drains(queue))
        #expect(log.all == ["first", "second"])
    }

    @Test func `finished dependencies remain readable until the operation has finished`() {
        let queue = RequestOperationQueue()
        let seen = Locked(0)
        let first = ScheduledBlockOperation {}
        let holder = Locked<Operation?>(nil)
        let second = ScheduledBlockOperation {
            seen.withLock { $0 = holder.withLock { $0 }?.dependencies.count ?? -1 }
            holder.withLock { $0 = nil }
        }
        holder.withLock { $0 = second }
        second.addDependency(first)
        queue.addOperations([first, second], waitUntilFinished: false)
        #expect(drains(queue))
        #expect(seen.withLock { $0 } == 1)
        #expect(second.dependencies.isEmpty)
    }

    @Test func `a finished dependency does not delay an operation, foreign or not`() {
        let operation = ScheduledBlockOperation {}
        let foreign = BlockOperation {}
        let own = ScheduledBlockOperation {}
        foreign.start()
        own.start()
        operation.addDependency(foreign)
        operation.addDependency(own)
        #expect(operation.isReady)
        #expect(operation.dependencies.count == 2)
    }

    @Test func `in a Foundation queue, a foreign operation waits for a Convoy operation`() {
        let queue = OperationQueue()
        let first = ScheduledBlockOperation {}
        let second = BlockOperation {}
        second.addDependency(first)
        queue.addOperation(second)
        #expect(!second.isFinished)
        first.start()
        #expect(drains(queue))
        #expect(second.isFinished)
    }

    @Test func `an operation finishes once and then retains no block`() {
        let gauge = Gauge()
        let operation = ScheduledBlockOperation { gauge.enter() }
        let door = Door()
        operation.completionBlock = { door.open() }
        operation.start()
        operation.start()
        operation.executionDidFinish()
        #expect(door.wait())
        #expect(gauge.total == 1)
        #expect(operation.completionBlock == nil)
    }

    @Test func `start() has no effect before the dependencies have finished`() {
        let operation = ScheduledBlockOperation {}
        operation.addDependency(BlockOperation {})
        operation.start()
        #expect(!operation.isFinished && !operation.isExecuting)
    }

    @Test(arguments: ["one", "several", "behind a barrier"])
    func `a Foundation queue evaluates isReady while it adds an operation`(way: String) {
        let queue = OperationQueue()
        queue.isSuspended = true
        if way == "behind a barrier" {
            queue.addOperation {}
            queue.addBarrierBlock {}
        }
        let operation = ScheduledBlockOperation {}
        operation.addDependency(BlockOperation {})
        operation.dependencies.forEach(operation.removeDependency)
        #expect(!operation.mayBeEnqueued)
        if way == "several" {
            queue.addOperations([BlockOperation {}, operation], waitUntilFinished: false)
        } else {
            queue.addOperation(operation)
        }
        #expect(operation.mayBeEnqueued && !operation.isScheduled)
        queue.isSuspended = false
        #expect(drains(queue))
    }

    @Test func `dependents, barriers and the operation itself do not evaluate isReady`() {
        let queue = OperationQueue()
        let operation = HTTPRequestOperation(request: URLRequest(url: URL(fileURLWithPath: "/")))
        let dependency = BlockOperation {}
        operation.addDependency(dependency)
        let dependents = [BlockOperation {}, ScheduledBlockOperation {}]
        for dependent in dependents { dependent.addDependency(operation) }
        queue.addOperations(dependents, waitUntilFinished: false)
        queue.addBarrierBlock {}
        operation.start()
        dependency.start()
        #expect(operation.areDependenciesFinished)
        operation.pause()
        operation.queuePriority = .high
        operation.resume()
        operation.cancel()
        _ = operation.description
        #expect(!operation.mayBeEnqueued)
        operation.start()
        #expect(drains(queue))
    }

    @Test(arguments: [true, false])
    func `an operation released before its dependency finishes is not touched by it`(isForeign: Bool) {
        let dependency: Operation = isForeign ? BlockOperation {} : ScheduledBlockOperation {}
        for _ in 0..<200 {
            weak var gone: ScheduledBlockOperation?
            do {
                let operation = ScheduledBlockOperation {}
                operation.addDependency(dependency)
                gone = operation
            }
            #expect(gone == nil)
        }
        dependency.start()
        #expect(dependency.isFinished)
    }

    @Test(arguments: [true, false])
    func `dependencies added and removed while others finish are never missed`(isForeign: Bool) {
        let queue = RequestOperationQueue()
        for _ in 0..<2_000 {
            let first: Operation = isForeign ? BlockOperation {} : ScheduledBlockOperation {}
            let second = ScheduledBlockOperation {}
            let third = ScheduledBlockOperation {}
            second.addDependency(first)
            queue.addOperation(second)
            queue.addOperation(first)
            third.addDependency(first)
            second.removeDependency(first)
            queue.addOperation(third)
        }
        #expect(drains(queue))
    }

    @Test func `a chain of two hundred thousand operations is released without recursion`() {
        var last = ScheduledBlockOperation {}
        weak let first = last
        for _ in 0..<200_000 {
            let next = ScheduledBlockOperation {}
            next.addDependency(last)
            last = next
        }
        #expect(first != nil)
        last = ScheduledBlockOperation {}
        #expect(first == nil)
    }

    @Test func `operations that start inline and finish immediately do not nest in long chains`() {
        let queue = RequestOperationQueue()
        var previous: Operation?
        for _ in 0..<50_000 {
            let operation = PausableTestOperation { $0.finish() }
            if let previous { operation.addDependency(previous) }
            queue.addOperation(operation)
            previous = operation
        }
        #expect(drains(queue))
    }

    @Test func `chains of twenty thousand operations run, including foreign operations`() {
        for kind in OperationKind.allCases {
            let queue = RequestOperationQueue()
            queue.isSuspended = true
            var previous: Operation?
            for _ in 0..<20_000 {
                let operation = kind.make {}
                if let previous { operation.addDependency(previous) }
                queue.addOperation(operation)
                previous = operation
            }
            queue.isSuspended = false
            #expect(drains(queue))
        }
    }
}
