import ConvoySupport
import ConvoyTestSupport
import Foundation
import Synchronization
import Testing

@testable import ConvoyOperations

struct QueueLengthTests {
    private func full(
        _ policy: RequestOperationQueue.OverflowPolicy
    ) -> (RequestOperationQueue, running: PausableTestOperation) {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        queue.maximumLength = 2
        queue.overflowPolicy = policy
        let running = PausableTestOperation()
        queue.addOperation(running)
        return (queue, running)
    }

    private func finish(_ operations: [PausableTestOperation]) {
        while let running = operations.first(where: { $0.isExecuting }) { running.finish() }
    }

    @Test func `the refuse policy cancels the operation with the reason, and enqueue throws`() {
        let (queue, running) = full(.refuse)
        let waiting = [PausableTestOperation(), PausableTestOperation()]
        queue.addOperations(waiting, waitUntilFinished: false)
        let refused = PausableTestOperation()
        queue.addOperation(refused)
        #expect(refused.isCancelled && refused.isFinished && refused.timesFinished == 1)
        #expect(refused.cancellationReason as? RequestOperationQueueError == .refused(maximumLength: 2))
        let untouched = PausableTestOperation()
        #expect(throws: RequestOperationQueueError.refused(maximumLength: 2)) { try queue.enqueue(untouched) }
        #expect(!untouched.isCancelled && !untouched.isScheduled)
        let foreign = BlockOperation {}
        queue.addOperation(foreign)
        #expect(returns { foreign.waitUntilFinished() })
        #expect(foreign.isCancelled)
        finish([running] + waiting)
        #expect(drains(queue))
        #expect((waiting + [running]).filter { $0.timesFinished == 1 }.count == 3)
    }

    @Test(arguments: OperationKind.allCases)
    func `the dropOldest policy cancels the oldest waiting operation of any kind`(kind: OperationKind) {
        let (queue, running) = full(.dropOldest)
        let gauge = Gauge()
        let first = kind.make { gauge.enter() }
        let second = kind.make { gauge.enter() }
        second.addDependency(BlockOperation {})
        let third = PausableTestOperation()
        let fourth = PausableTestOperation()
        queue.addOperations([first, second, third, fourth], waitUntilFinished: false)
        for operation in [first, second] {
            #expect(returns { operation.waitUntilFinished() })
            #expect(operation.isCancelled)
        }
        if let dropped = first as? ScheduledOperation {
            #expect(dropped.cancellationReason as? RequestOperationQueueError == .dropped(maximumLength: 2))
        }
        #expect(gauge.total == 0)
        finish([running, third, fourth])
        #expect(drains(queue))
        #expect(third.timesFinished == 1 && fourth.timesFinished == 1)
    }

    @Test func `the wait policy blocks the adding thread until there is room`() {
        let (queue, running) = full(.wait)
        let operations = (0..<50).map { _ in PausableTestOperation { $0.finish() } }
        let added = Locked(0)
        let door = Door()
        Thread {
            for operation in operations {
                queue.addOperation(operation)
                added.withLock { $0 += 1 }
            }
            door.open()
        }.start()
        #expect(eventually { added.withLock { $0 } == 2 })
        #expect(queue.queuedOperationCount == 3)
        running.finish()
        #expect(door.wait())
        #expect(drains(queue))
        #expect(operations.filter { $0.timesFinished == 1 }.count == 50)
    }

    @Test func `under the wait policy, a task waits in order without blocking a thread, and can be cancelled`() async throws
    {
        let (queue, running) = full(.wait)
        let waiting = [PausableTestOperation(), PausableTestOperation()]
        for operation in waiting { try await queue.enqueue(operation) }
        let (late, given) = (PausableTestOperation(), PausableTestOperation())
        let cancelled = Task { try await queue.enqueue(given) }
        while queue.state.withLock({ !$0.capacity.hasWaiters }) { await Task.yield() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        #expect(!given.isScheduled)
        let task = Task { try await queue.enqueue(late) }
        while queue.state.withLock({ !$0.capacity.hasWaiters }) { await Task.yield() }
        running.finish()
        try await task.value
        finish(waiting + [late])
        #expect(late.timesFinished == 1)
        #expect(queue.queuedOperationCount == 0)
    }

    @Test func `under the wait policy, a cancelled task throws and leaves the operation unchanged`() async throws {
        let (queue, running) = full(.wait)
        let waiting = [PausableTestOperation(), PausableTestOperation()]
        queue.addOperations(waiting, waitUntilFinished: false)
        let late = PausableTestOperation()
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            try await queue.enqueue(late)
        }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(!late.isCancelled && !late.isScheduled && queue.state.withLock { !$0.capacity.hasWaiters })
        finish([running] + waiting)
        #expect(drains(queue))
    }

    @Test func `removing the limit admits all waiters`() {
        let (queue, running) = full(.wait)
        let operations = (0..<10).map { _ in PausableTestOperation() }
        let door = Door()
        Thread {
            queue.addOperations(operations, waitUntilFinished: false)
            door.open()
        }.start()
        #expect(eventually { queue.queuedOperationCount == 3 })
        queue.maximumLength = nil
        #expect(door.wait())
        #expect(queue.queuedOperationCount == 11)
        finish([running] + operations)
        #expect(drains(queue))
    }

    @Test func `the maximum length is respected under concurrent additions`() {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 2
        queue.maximumLength = 5
        queue.overflowPolicy = .wait
        let gauge = Gauge()
        let longest = Atomic<Int>(0)
        let doors = (0..<8).map { _ in Door() }
        for door in doors {
            Thread {
                for _ in 0..<300 {
                    queue.addOperation {
                        gauge.enter()
                        longest.max(queue.queuedOperationCount, ordering: .relaxed)
                    }
                }
                door.open()
            }.start()
        }
        for door in doors { #expect(door.wait()) }
        #expect(drains(queue))
        #expect(gauge.total == 2400)
        // Five waiting operations, and two that are running or about to end.
        #expect((3...7).contains(longest.load(ordering: .relaxed)))
    }

    // MARK: The queue of waiters

    /// Returns a capacity of one operation, which is taken, and the given number of waiters.
    private func crowded(_ count: Int) -> (QueueCapacity, [CapacityWaiter]) {
        var capacity = QueueCapacity()
        capacity.maximum = 1
        capacity.admit()
        let waiters = (0..<count).map { _ in CapacityWaiter() }
        for waiter in waiters { capacity.wait(waiter) }
        return (capacity, waiters)
    }

    @Test func `a waiter that leaves does not affect the others`() {
        var (capacity, waiters) = crowded(6)
        for index in [0, 3, 5, 3] { capacity.giveUp(waiters[index]) }
        waiters.append(CapacityWaiter())
        capacity.wait(waiters[6])
        let early = capacity.admitWaiters()
        #expect(early.isEmpty)
        var admitted: [Int?] = []
        while capacity.hasWaiters {
            capacity.retract()
            for waiter in capacity.admitWaiters() { admitted.append(waiters.firstIndex { $0 === waiter }) }
        }
        #expect(admitted == [1, 2, 4, 6])
    }

    @Test(arguments: [false, true])
    func `removing waiters takes linear time`(oldestFirst: Bool) {
        let times = [3_000, 12_000].map { count in
            leastThreadTime {
                var (capacity, waiters) = crowded(count)
                if !oldestFirst { waiters.reverse() }
                for waiter in waiters { capacity.giveUp(waiter) }
                #expect(!capacity.hasWaiters)
            }
        }
        #expect(times[1] < times[0] * 9, "\(times)")
    }
}
