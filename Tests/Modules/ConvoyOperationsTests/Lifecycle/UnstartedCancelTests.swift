import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Cancelled operations that were not started. Cancelling marks such an operation, as in Foundation, and it finishes as
/// cancelled when it is started. Therefore, a finished operation is never added to a Foundation queue, which would
/// crash the program.
@Suite struct UnstartedCancelTests {
    private let network = ThreadedTransport()

    private func operation() -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(
            request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network)
        operation.completionQueue = testQueue
        return operation
    }

    /// A counter of the calls of an operation's handlers.
    private final class Calls: Sendable {
        private let failures = Locked<[Int]>([])
        var all: [Int] { failures.withLock { $0 } }

        init(of operation: HTTPRequestOperation) {
            operation.setCompletionHandler(
                success: { [self] _, _ in failures.withLock { $0.append(0) } },
                failure: { [self] _, error in failures.withLock { $0.append((error as NSError).code) } })
        }

        static let cancelled = [URLError.cancelled.rawValue]
    }

    @Test(arguments: QueueKind.allCases, [false, true])
    func `a cancelled operation can be enqueued afterwards`(kind: QueueKind, wasPaused: Bool) {
        let operation = operation()
        let calls = Calls(of: operation)
        if wasPaused { operation.pause() }
        operation.cancel()
        operation.cancel()
        #expect(operation.isCancelled && !operation.isFinished && operation.isReady && operation.error == nil)
        let queue = kind.make()
        queue.addOperation(operation)
        #expect(drains(queue))
        testQueue.sync {}
        #expect(operation.isFinished && calls.all == Calls.cancelled)
        #expect(network.connectionCount == 0)
    }

    @Test func `a cancelled operation in a suspended Foundation queue waits for its start`() {
        let queue = OperationQueue()
        queue.isSuspended = true
        let operation = operation()
        let calls = Calls(of: operation)
        queue.addOperation(operation)
        for _ in 0..<2 { operation.cancel() }
        #expect(operation.isCancelled && !operation.isFinished)
        queue.isSuspended = false
        #expect(drains(queue))
        testQueue.sync {}
        #expect(calls.all == Calls.cancelled)
    }

    @Test func `a cancelled operation that is started manually finishes once`() {
        let operation = operation()
        let calls = Calls(of: operation)
        operation.cancel()
        for _ in 0..<2 { operation.start() }
        #expect(operation.isFinished && (operation.error as? URLError)?.code == .cancelled)
        testQueue.sync {}
        #expect(calls.all == Calls.cancelled)
    }

    @Test func `a cancelled operation that is started manually does not wait for its dependencies`() {
        let operation = operation()
        operation.addDependency(BlockOperation {})
        operation.start()
        #expect(operation.state == .ready)
        operation.cancel()
        operation.start()
        #expect(operation.isFinished)
    }

    @Test func `cancelling a started operation finishes it immediately`() {
        let paused = operation()
        paused.start()
        paused.pause()
        network.queue.sync {}
        paused.cancel()
        #expect(paused.isFinished)
        let waiting = operation()
        waiting.retryPolicy = RetryPolicy(maximumRetryCount: 1)
        waiting.retryPolicy?.budget = nil
        waiting.start()
        network.queue.sync {}
        network.end(with: URLError(.networkConnectionLost))
        #expect(waiting.state == .ready)
        waiting.cancel()
        #expect(waiting.isFinished && (waiting.error as? URLError)?.code == .cancelled)
    }

    @Test func `a dependent runs after the cancelled operation has finished`() {
        let operation = operation()
        let dependent = BlockOperation {}
        dependent.addDependency(operation)
        let queue = OperationQueue()
        queue.addOperation(dependent)
        operation.cancel()
        #expect(!dependent.isFinished)
        queue.addOperation(operation)
        #expect(drains(queue))
        #expect(dependent.isFinished)
    }

    /// Foundation's own operations hang in this case.
    @Test func `a cancelled operation can be enqueued behind a Foundation barrier`() {
        let queue = OperationQueue()
        queue.isSuspended = true
        queue.addOperation {}
        queue.addBarrierBlock {}
        let operation = operation()
        operation.cancel()
        let isAdded = returns { queue.addOperation(operation) }
        #expect(isAdded)
        guard isAdded else { return }
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(operation.isFinished)
    }

    @Test(arguments: QueueKind.allCases, [false, true])
    func `enqueueing and cancelling concurrently finishes the operation once`(kind: QueueKind, isPaused: Bool) {
        let queue = kind.make()
        let pairs = (0..<PropertyBudget.rounds(2_500)).map { _ in operation() }
        let failures = Counter()
        let position = Counter()
        for operation in pairs {
            operation.setCompletionHandler(
                success: { _, _ in Issue.record("it was cancelled") },
                failure: { _, _ in failures.value.add(1, ordering: .relaxed) })
            if isPaused { operation.pause() }
        }
        // Both threads act on the same operation at about the same time, in either order.
        let canceller = returnsLater {
            for (index, operation) in pairs.enumerated() {
                while position.value.load(ordering: .acquiring) < index { sched_yield() }
                operation.cancel()
            }
        }
        for (index, operation) in pairs.enumerated() {
            position.value.store(index, ordering: .releasing)
            if index % 3 == 0 { sched_yield() }
            queue.addOperation(operation)
        }
        #expect(canceller.wait())
        #expect(drains(queue))
        #expect(eventually { failures.value.load(ordering: .relaxed) == pairs.count })
        #expect(pairs.allSatisfy { $0.isFinished })
    }

    private final class Counter: Sendable { let value = Atomic<Int>(0) }

    private func returnsLater(_ body: @escaping @Sendable () -> Void) -> Door {
        let door = Door()
        Thread {
            body()
            door.open()
        }.start()
        return door
    }

    // MARK: Awaited

    @Test(.timeLimit(.minutes(2))) func `awaiting an operation that is already cancelled starts it`() async {
        let operation = operation()
        operation.cancel()
        await #expect(throws: URLError.self) { try await operation.finished() }
        #expect(operation.isFinished)
    }

    @Test(.timeLimit(.minutes(2)), arguments: [false, true])
    func `cancelling an awaited operation starts it`(byTheTask: Bool) async throws {
        for isPaused in [false, true] {
            let operation = operation()
            if isPaused { operation.pause() }
            let task = Task { try await operation.finished() }
            for _ in 0..<3 { await Task.yield() }
            if byTheTask { task.cancel() } else { operation.cancel() }
            await #expect(throws: URLError.self) { try await task.value }
            #expect(operation.isFinished && operation.isCancelled)
        }
    }

    @Test(.timeLimit(.minutes(2))) func `awaiting an operation in a Foundation queue leaves its start to the queue`() async {
        let queue = OperationQueue()
        queue.isSuspended = true
        let operation = operation()
        queue.addOperation(operation)
        let task = Task { try await operation.finished() }
        for _ in 0..<3 { await Task.yield() }
        task.cancel()
        operation.cancel()
        #expect(!operation.isFinished)
        queue.isSuspended = false
        await #expect(throws: URLError.self) { try await task.value }
        #expect(operation.isFinished)
    }

    @Test(.timeLimit(.minutes(2))) func `awaiting and enqueueing concurrently finishes a cancelled operation once`() async {
        for _ in 0..<2_000 {
            let operation = operation()
            let calls = Calls(of: operation)
            let queue = RequestOperationQueue()
            queue.isSuspended = true
            async let isOver: Void? = try? operation.finished()
            async let isAdded: Void = queue.addOperation(operation)
            operation.cancel()
            await isAdded
            queue.isSuspended = false
            _ = await isOver
            #expect(calls.all == Calls.cancelled)
            #expect(queue.queuedOperationCount == 0)
        }
    }

    // MARK: A batch

    @Test func `a cancelled batch that was not started finishes when it is started`() throws {
        let operations = URLConnectionOperation.batch(
            of: [operation()], completionQueue: testQueue, completion: { _ in Issue.record("it was cancelled") })
        let batch = try #require(operations.last)
        batch.cancel()
        #expect(batch.isCancelled && batch.isReady && !batch.isFinished)
        let queue = OperationQueue()
        queue.addOperation(batch)
        #expect(drains(queue))
        #expect(batch.isFinished)
    }
}
