import ConvoyTestSupport
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests that `finished()` starts an operation outside a queue exactly once, whatever other calls are made.
@Suite(.timeLimit(.minutes(2))) struct AwaitingTests {
    private let network = ThreadedTransport()

    init() { network.serve() }

    private func operation() -> HTTPRequestOperation { operation(HTTPRequestOperation.self) }

    private func operation<Made: HTTPRequestOperation>(_ type: Made.Type) -> Made {
        let operation = Made(request: URLRequest(url: URL(fileURLWithPath: "/simulated")))
        operation.change { $0.holder.transport = network }
        operation.completionQueue = testQueue
        return operation
    }

    /// An operation that responds slowly to every query of a queue, so that other threads run before the response.
    private final class SlowOperation: HTTPRequestOperation, @unchecked Sendable {
        override var isReady: Bool { slowly(super.isReady) }
        override var isCancelled: Bool { slowly(super.isCancelled) }
        override var isFinished: Bool { slowly(super.isFinished) }
        override var isExecuting: Bool { slowly(super.isExecuting) }

        private func slowly(_ answer: Bool) -> Bool {
            letOthersRun(microseconds: Int.random(in: 0..<4) == 0 ? Int.random(in: 2...60) : 1)
            return answer
        }
    }

    // MARK: One operation

    @Test func `awaiting an operation that is not enqueued starts it`() async throws {
        let server = try TestServer()
        server.route("GET", "/x", .text("x"))
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/x")))
        operation.completionQueue = testQueue
        try await operation.finished()
        #expect(operation.responseString == "x" && server.requests.count == 1)
        // The second call returns immediately.
        try await operation.finished()
    }

    @Test func `awaiting an operation that only transfers bytes starts it too`() async throws {
        let operation = URLConnectionOperation(
            request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network)
        try await operation.finished()
        #expect(operation.isFinished && network.connectionCount == 1)
    }

    @Test func `an awaited operation starts when its dependencies have finished, and does not start them`() async throws {
        let (first, second, last) = (operation(), operation(), operation())
        second.addDependency(first)
        last.addDependency(second)
        let task = Task { try await last.finished() }
        #expect(eventually { last.has(.claimed) })
        RequestOperationQueue().addOperation(second)
        for _ in 0..<3 { await Task.yield() }
        #expect(first.isUnclaimed && network.connectionCount == 0)
        first.start()
        try await task.value
        #expect(first.isFinished && second.isFinished && network.connectionCount == 3)
    }

    @Test func `a dependency can be added to an operation that is already awaited`() async throws {
        let (first, second, last) = (operation(), operation(), operation())
        last.addDependency(first)
        let task = Task { try await last.finished() }
        #expect(eventually { last.has(.claimed) })
        last.addDependency(second)
        first.start()
        try await first.finished()
        #expect(last.state == .ready && network.connectionCount == 1)
        second.start()
        try await task.value
        #expect(second.isFinished && last.error == nil)
    }

    @Test func `a long chain of awaited operations does not exhaust the stack`() async throws {
        let chain = (0..<20_000).map { _ in operation() }
        for (operation, next) in zip(chain, chain.dropFirst()) { next.addDependency(operation) }
        for operation in chain.reversed() { operation.startAwaited() }
        try await chain.last?.finished()
        #expect(chain.allSatisfy { $0.isFinished })
    }

    @Test func `cancelling an awaited operation that waits for a dependency ends it`() async {
        let (one, other) = (operation(), operation())
        one.addDependency(other)
        let task = Task { try await one.finished() }
        #expect(eventually { one.has(.claimed) })
        task.cancel()
        await #expect(throws: URLError.self) { try await task.value }
        #expect(one.isFinished && other.isUnclaimed)
    }

    @Test func `a paused operation waits for its resume`() async throws {
        let operation = operation()
        operation.pause()
        let task = Task { try await operation.finished() }
        #expect(eventually { operation.has(.claimed) })
        #expect(operation.isPaused && network.connectionCount == 0)
        operation.resume()
        try await task.value
        #expect(operation.isFinished)
    }

    @Test func `a cancelled operation fails and does not wait for dependencies`() async {
        let (operation, dependency) = (operation(), operation())
        operation.addDependency(dependency)
        operation.cancel()
        await #expect(throws: URLError.self) { try await operation.finished() }
        #expect(operation.isFinished && !dependency.isFinished && network.connectionCount == 0)
    }

    @Test func `an operation that was started manually is not started again`() async throws {
        let operation = operation()
        operation.start()
        try await operation.finished()
        #expect(network.connectionCount == 1 && !operation.isScheduled)
    }

    // MARK: Awaited, then enqueued

    @Test(arguments: QueueKind.allCases)
    func `a manager ignores an operation that is already awaited`(kind: QueueKind) async throws {
        let manager = HTTPRequestOperationManager()
        manager.operationQueue = kind.make()
        let paused = operation()
        paused.pause()
        let task = Task { try await paused.finished() }
        #expect(eventually { paused.has(.startsWhenReady) })
        manager.enqueue(paused)
        manager.enqueue([paused])
        #expect(manager.operationQueue.operationCount == 0)
        paused.resume()
        try await task.value
        manager.enqueue(paused)
        #expect(network.connectionCount == 1)
    }

    @Test(arguments: QueueKind.allCases)
    func `awaiting an enqueued operation leaves its start to the queue`(kind: QueueKind) async throws {
        let manager = HTTPRequestOperationManager()
        let queue = kind.make()
        manager.operationQueue = queue
        queue.isSuspended = true
        let operation = operation()
        manager.enqueue(operation)
        manager.enqueue(operation)
        let task = Task { try await operation.finished() }
        for _ in 0..<3 { await Task.yield() }
        #expect(!operation.isExecuting && !operation.isFinished)
        queue.isSuspended = false
        try await task.value
        #expect(network.connectionCount == 1)
    }

    @Test(arguments: QueueKind.allCases)
    func `awaiting and enqueueing concurrently starts an operation once`(kind: QueueKind) async {
        let manager = HTTPRequestOperationManager()
        manager.operationQueue = kind.make()
        let count = PropertyBudget.rounds(300)
        for round in 0..<count {
            let operation = operation(SlowOperation.self)
            let ends = Atomic<Int>(0)
            operation.setCompletionHandler(
                success: { _, _ in ends.add(1, ordering: .relaxed) },
                failure: { _, _ in ends.add(1, ordering: .relaxed) })
            if round % 3 == 0 { operation.pause() }
            async let done: Void? = try? operation.finished()
            async let again: Void? = try? operation.finished()
            if round % 2 == 0 { await Task.yield() }
            async let started: Void = {
                // An operation in a Foundation queue must not be started manually.
                if kind == .convoy, round % 5 == 0 { operation.start() }
            }()
            manager.enqueue(operation)
            operation.resume()
            if round % 7 == 0 { operation.cancel() }
            await started
            _ = await done
            _ = await again
            #expect(operation.isFinished && ends.load(ordering: .relaxed) == 1)
        }
        let queue = manager.operationQueue
        #expect(await Task.detached { drains(queue) }.value)
        #expect(network.connectionCount <= count)
    }

    // MARK: Batches

    @Test func `awaiting a batch starts its members`() async throws {
        let members = (0..<5).map { _ in operation() }
        let numbers = Log()
        let batch = BatchOperation(
            of: members + members, completionQueue: testQueue, progress: { done, total in numbers.add("\(done)/\(total)") })
        try await batch.finished()
        #expect(members.allSatisfy { $0.isFinished } && batch.isFinished)
        #expect(numbers.all == ["1/5", "2/5", "3/5", "4/5", "5/5"])
        try await batch.finished()
    }

    @Test(arguments: QueueKind.allCases)
    func `a manager enqueues a batch and returns its members`(kind: QueueKind) async throws {
        let manager = HTTPRequestOperationManager()
        manager.operationQueue = kind.make()
        let bad = HTTPRequestOperation(request: URLRequest(url: URL(fileURLWithPath: "/nothing")))
        let members = [operation(), bad, operation()]
        let numbers = Log()
        let finished = try await manager.enqueueBatch(of: members + [bad]) { numbers.add("\($0)/\($1)") }
        #expect(finished.map(ObjectIdentifier.init) == members.map(ObjectIdentifier.init))
        #expect(finished.map { $0.error == nil } == [true, false, true])
        #expect(numbers.all == ["1/3", "2/3", "3/3"])
        #expect(try await manager.enqueueBatch(of: [HTTPRequestOperation]()).isEmpty)
    }

    @Test func `cancelling a batch's task cancels its members`() async {
        let members = (0..<3).map { _ in operation() }
        for member in members { member.pause() }
        let batch = BatchOperation(of: members)
        let task = Task { try await batch.finished() }
        #expect(eventually { batch.isScheduled })
        task.cancel()
        await #expect(throws: URLError.self) { try await task.value }
        #expect(members.allSatisfy { $0.isFinished && $0.isCancelled })
    }

    @Test func `cancelling a batch ends the wait, and its members continue`() async throws {
        let member = operation()
        member.pause()
        let batch = BatchOperation(of: [member])
        let task = Task { try await batch.finished() }
        #expect(eventually { member.isScheduled })
        batch.cancel()
        await #expect(throws: URLError.self) { try await task.value }
        #expect(!member.isCancelled)
        member.resume()
        try await member.finished()
    }
}
