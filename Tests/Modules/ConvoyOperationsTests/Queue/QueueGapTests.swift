import ConvoySupport
import ConvoyTestSupport
import Foundation
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests that changes made while a queue adds an operation are not lost. The queue sets itself as the operation's
/// scheduler, reads the operation's properties, and inserts it accordingly.
struct QueueGapTests {
    /// An operation that runs a closure once, after a property has been read a given number of times.
    private final class InterruptedOperation: AskedTestOperation, @unchecked Sendable {
        private struct Plan {
            let question: QueueQuestion
            var time: Int
            let action: @Sendable (InterruptedOperation) -> Void
        }

        private let plan = Locked<Plan?>(nil)

        func on(_ question: QueueQuestion, time: Int, _ action: @escaping @Sendable (InterruptedOperation) -> Void) {
            plan.withLock { $0 = Plan(question: question, time: time, action: action) }
        }

        override func didAnswer(_ question: QueueQuestion) {
            let action = plan.withLock { plan -> (@Sendable (InterruptedOperation) -> Void)? in
                guard plan?.question == question else { return nil }
                plan?.time -= 1
                guard let due = plan, due.time == 0 else { return nil }
                plan = nil
                return due.action
            }
            action?(self)
        }
    }

    private static let times = [1, 2, 3]

    @Test(arguments: QueueQuestion.allCases, times)
    func `an operation cancelled during the addition finishes immediately in a suspended queue`(
        question: QueueQuestion, time: Int
    ) {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let operation = InterruptedOperation(host: "a")
        operation.on(question, time: time) { $0.cancel() }
        queue.addOperation(operation)
        // If the property is read less often, the closure has not run.
        if operation.isCancelled {
            #expect(operation.isFinished && operation.timesFinished == 1)
            #expect(queue.queuedOperationCount == 0)
        }
        operation.cancel()
        #expect(operation.isFinished && operation.timesFinished == 1)
    }

    @Test(arguments: QueueQuestion.allCases, times)
    func `an operation whose priority is raised during the addition runs first`(question: QueueQuestion, time: Int) {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        queue.maxConcurrentOperationCount = 1
        let operations = [PausableTestOperation(host: "a"), InterruptedOperation(host: "b")]
        let (first, second) = (operations[0], operations[1])
        queue.addOperation(first)
        (second as? InterruptedOperation)?.on(question, time: time) { $0.queuePriority = .veryHigh }
        queue.addOperation(second)
        // Reading the priority may trigger the change.
        _ = second.queuePriority
        let isUrgent = second.queuePriority == .veryHigh
        queue.isSuspended = false
        #expect(operations.map(\.isExecuting) == (isUrgent ? [false, true] : [true, false]))
        for operation in [second, first, second] { operation.finish() }
        #expect(drains(queue))
    }

    @Test(arguments: QueueQuestion.allCases, times)
    func `an operation paused during the addition returns its slot and continues when resumed`(
        question: QueueQuestion, time: Int
    ) {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let operation = InterruptedOperation(host: "a")
        operation.on(question, time: time) { $0.pause() }
        queue.addOperation(operation)
        if operation.current == .paused {
            let other = PausableTestOperation(host: "a")
            queue.addOperation(other)
            #expect(other.isExecuting)
            operation.resume()
            #expect(operation.current == .ready)
            other.finish()
        }
        #expect(operation.isExecuting)
        operation.finish()
        #expect(drains(queue))
    }

    @Test(arguments: QueueQuestion.allCases, times)
    func `an operation paused and resumed during the addition starts`(question: QueueQuestion, time: Int) {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let operation = InterruptedOperation(host: "a")
        operation.on(question, time: time) {
            $0.pause()
            $0.resume()
        }
        queue.addOperation(operation)
        #expect(operation.isExecuting)
        operation.finish()
        #expect(drains(queue))
    }

    @Test(arguments: QueueQuestion.allCases, times)
    func `an operation whose last dependency finishes during the addition is started`(question: QueueQuestion, time: Int) {
        let queue = RequestOperationQueue()
        let operation = InterruptedOperation(host: "a")
        let dependency = ScheduledBlockOperation {}
        operation.addDependency(dependency)
        operation.on(question, time: time) { _ in dependency.start() }
        queue.addOperation(operation)
        dependency.start()
        #expect(operation.isExecuting)
        operation.finish()
        #expect(drains(queue))
    }

    @Test(arguments: QueueQuestion.allCases, times)
    func `a dependency added during the addition delays the operation`(question: QueueQuestion, time: Int) {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let operation = InterruptedOperation(host: "a")
        let dependency = ScheduledBlockOperation {}
        operation.on(question, time: time) { $0.addDependency(dependency) }
        queue.addOperation(operation)
        queue.isSuspended = false
        // The second read of `isReady` occurs just before the start, when it is too late.
        let isWaitedFor = !operation.dependencies.isEmpty && (question, time) != (.isReady, 2)
        #expect(operation.isExecuting == !isWaitedFor)
        dependency.start()
        #expect(operation.isExecuting)
        operation.finish()
        #expect(drains(queue))
    }

    @Test(arguments: QueueQuestion.allCases, times)
    func `an operation started and finished manually during the addition leaves its slot`(question: QueueQuestion, time: Int)
    {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let operation = InterruptedOperation(host: "a")
        operation.on(question, time: time) {
            $0.start()
            $0.finish()
        }
        queue.addOperation(operation)
        operation.finish()
        #expect(operation.isFinished && operation.timesFinished == 1)
        let other = PausableTestOperation(host: "a")
        queue.addOperation(other)
        #expect(other.isExecuting)
        other.finish()
        #expect(drains(queue))
    }

    @Test(arguments: QueueQuestion.allCases, times)
    func `a paused operation finishes immediately if cancelled and resumed at the same time`(
        question: QueueQuestion, time: Int
    ) {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let operation = InterruptedOperation(host: "a")
        queue.addOperation(operation)
        operation.pause()
        operation.on(question, time: time) { $0.resume() }
        operation.cancel()
        #expect(operation.isFinished && operation.timesFinished == 1)
        #expect(queue.queuedOperationCount == 0)
    }

    /// An operation that is resumed after its start has found it paused.
    private final class LateResumedOperation: PausableTestOperation, @unchecked Sendable {
        private let isFirst = Atomic<Bool>(true)

        override func willLeave(_ phase: Phase) {
            if isCancelled, isFirst.exchange(false, ordering: .relaxed) { resume() }
        }
    }

    @Test func `a paused operation that is cancelled finishes immediately even if resumed while it starts`() {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let operation = LateResumedOperation()
        queue.addOperation(operation)
        operation.pause()
        operation.cancel()
        #expect(operation.isFinished && operation.timesFinished == 1)
        #expect(queue.queuedOperationCount == 0)
    }

    /// An operation that is cancelled after the last of its properties was read.
    private final class CancelledOperation: ScheduledOperation, @unchecked Sendable {
        private let isFirst = Atomic<Bool>(true)

        override var qualityOfService: QualityOfService {
            get {
                let quality = super.qualityOfService
                if isFirst.exchange(false, ordering: .relaxed) { cancel() }
                return quality
            }
            set { super.qualityOfService = newValue }
        }
    }

    @Test func `a cancelled operation finishes immediately even if all workers are blocked`() {
        let queue = RequestOperationQueue()
        let goOn = Door()
        for _ in 0..<64 { queue.addOperation { goOn.wait() } }
        let operation = CancelledOperation()
        queue.addOperation(operation)
        #expect(operation.isFinished)
        goOn.open()
        #expect(drains(queue))
    }

    // MARK: Concurrent threads

    private static let rounds = PropertyBudget.rounds(400)

    @Test func `an operation runs even if three threads change its dependencies while a fourth adds it to a queue`() {
        let queue = RequestOperationQueue()
        for round in 0..<Self.rounds {
            let operation = PausableTestOperation { $0.finish() }
            let dependencies = (0..<3).map { _ in ScheduledBlockOperation {} }
            if round % 2 == 0 { operation.addDependency(dependencies[0]) }
            DispatchQueue.concurrentPerform(iterations: 4) { thread in
                switch thread {
                case 0: queue.addOperation(operation)
                case 1:
                    operation.addDependency(dependencies[1])
                    dependencies[2].start()
                case 2:
                    operation.addDependency(dependencies[2])
                    operation.removeDependency(dependencies[0])
                default:
                    dependencies[1].start()
                    operation.addDependency(dependencies[0])
                    dependencies[0].start()
                }
            }
        }
        #expect(drains(queue))
    }

    @Test(arguments: QueueKind.allCases)
    func `operations can be released while their dependencies finish`(kind: QueueKind) {
        let queue = kind.make()
        for _ in 0..<Self.rounds {
            let dependency = ScheduledBlockOperation {}
            let dropped = Locked<[Operation]>(
                (0..<4).map { number in
                    let operation = number % 2 == 0 ? ScheduledBlockOperation {} : PausableTestOperation { $0.finish() }
                    operation.addDependency(dependency)
                    return operation
                })
            DispatchQueue.concurrentPerform(iterations: 3) { thread in
                switch thread {
                case 0: dependency.start()
                case 1: if let operation = dropped.withLock({ $0.popLast() }) { queue.addOperation(operation) }
                default: while dropped.withLock({ $0.popLast() }) != nil {}
                }
            }
        }
        #expect(drains(queue))
    }

    @Test(arguments: QueueKind.allCases)
    func `operations can finish while others first depend on them`(kind: QueueKind) {
        let queue = kind.make()
        for _ in 0..<Self.rounds {
            let dependency = ScheduledBlockOperation {}
            let dependents = [ScheduledBlockOperation {}, ScheduledBlockOperation {}]
            DispatchQueue.concurrentPerform(iterations: 3) { thread in
                guard thread < 2 else { return queue.addOperation(dependency) }
                dependents[thread].addDependency(dependency)
                queue.addOperation(dependents[thread])
            }
        }
        #expect(drains(queue))
    }

    @Test func `idle workers that check for work again miss none of it`() {
        let queue = RequestOperationQueue()
        let count = Atomic<Int>(0)
        for round in 0..<Self.rounds {
            queue.addOperation { count.add(1, ordering: .relaxed) }
            // The next block is added before the worker has given up, after that, or at that moment.
            if round % 3 != 0 { letOthersRun(microseconds: round % 40) }
        }
        #expect(drains(queue))
        #expect(count.load(ordering: .relaxed) == Self.rounds)
    }
}
