import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that cancelled operations finish immediately, whatever holds back other operations in the queue.
struct QueueCancelTests {
    /// The obstacles that can hold back a ready operation.
    enum Obstacle: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case limit, limitOfZero, limitOfTheHost, barrier, suspension, dependency, pause
        var testDescription: String { rawValue }
    }

    private func queue(with obstacle: Obstacle) -> (queue: RequestOperationQueue, running: PausableTestOperation) {
        let queue = RequestOperationQueue()
        let running = PausableTestOperation(host: "a")
        queue.addOperation(running)
        switch obstacle {
        case .limit: queue.maxConcurrentOperationCount = 1
        case .limitOfZero: queue.maxConcurrentOperationCount = 0
        case .limitOfTheHost: queue.maxConcurrentOperationCountPerHost = 1
        case .barrier: queue.addBarrierBlock {}
        case .suspension: queue.isSuspended = true
        case .dependency, .pause: break
        }
        return (queue, running)
    }

    private func add(_ operation: PausableTestOperation, to queue: RequestOperationQueue, _ obstacle: Obstacle) {
        if obstacle == .dependency { operation.addDependency(ScheduledBlockOperation {}) }
        if obstacle == .pause { operation.pause() }
        queue.addOperation(operation)
    }

    @Test(arguments: Obstacle.allCases)
    func `a cancelled operation finishes inside cancel() and starts nothing else`(obstacle: Obstacle) {
        let (queue, running) = queue(with: obstacle)
        let (cancelled, other) = (PausableTestOperation(host: "a"), PausableTestOperation(host: "a"))
        add(cancelled, to: queue, obstacle)
        add(other, to: queue, obstacle)
        #expect(cancelled.current != .executing && other.current != .executing)
        cancelled.cancel()
        #expect(cancelled.isFinished && cancelled.timesFinished == 1)
        #expect(other.current != .executing && !other.isFinished)
        other.cancel()
        running.finish()
        queue.isSuspended = false
        #expect(drains(queue))
    }

    @Test(arguments: Obstacle.allCases)
    func `an operation cancelled before it is added finishes when it is added`(obstacle: Obstacle) {
        let (queue, running) = queue(with: obstacle)
        let cancelled = PausableTestOperation(host: "a")
        cancelled.cancel()
        add(cancelled, to: queue, obstacle)
        #expect(cancelled.isFinished && cancelled.timesFinished == 1)
        running.finish()
        queue.isSuspended = false
        #expect(drains(queue))
    }

    @Test(arguments: [true, false])
    func `an operation that starts on the dispatch queue finishes without waiting for a thread`(isBlock: Bool) {
        let queue = RequestOperationQueue()
        let serial = DispatchQueue(label: "one thread")
        queue.underlyingQueue = serial
        let (begun, door) = (Door(), Door())
        queue.addOperation {
            begun.open()
            door.wait()
        }
        #expect(begun.wait())
        let (ran, goneBy) = (Gauge(), PausableTestOperation(direct: false))
        let cancelled = isBlock ? ScheduledBlockOperation { ran.enter() } : goneBy
        // The operation gets a slot, but must wait for the only thread, which is busy.
        queue.addOperation(cancelled)
        cancelled.cancel()
        // An operation that overrides start() is started only on the dispatch queue.
        #expect(cancelled.isFinished == isBlock)
        door.open()
        #expect(drains(queue))
        #expect(cancelled.isFinished && ran.total == 0)
    }

    @Test func `a resumed operation without a free slot finishes when it is cancelled`() {
        let (queue, running) = queue(with: .limit)
        let second = PausableTestOperation()
        queue.addOperation(second)
        running.pause()
        #expect(second.isExecuting)
        running.resume()
        #expect(running.current == .ready)
        running.cancel()
        #expect(running.isFinished && second.isExecuting)
        second.finish()
        #expect(drains(queue))
    }

    @Test(arguments: Obstacle.allCases)
    func `a cancelled operation gives its place in a full queue to a waiting one`(obstacle: Obstacle) {
        let (queue, running) = queue(with: obstacle)
        queue.maximumLength = 2
        queue.overflowPolicy = .wait
        let waiting = (0..<2).map { _ in PausableTestOperation(host: "a") }
        for operation in waiting { add(operation, to: queue, obstacle) }
        let late = PausableTestOperation(host: "a")
        let added = Door()
        Thread {
            queue.addOperation(late)
            added.open()
        }.start()
        #expect(eventually { queue.state.withLock { $0.capacity.hasWaiters } })
        waiting[0].cancel()
        #expect(added.wait())
        let counted = queue.state.withLock { $0.capacity.length }
        // If nothing holds back the late operation itself, it has been started and no longer counts.
        #expect(counted == ([.dependency, .pause].contains(obstacle) ? 1 : 2))
        queue.cancelAllOperations()
        running.finish()
        #expect(queue.state.withLock { $0.capacity.length } == 0)
        queue.isSuspended = false
        #expect(drains(queue))
    }

    @Test func `an operation cancelled before it is added occupies no place in a full queue`() {
        let (queue, running) = queue(with: .limit)
        queue.maximumLength = 1
        queue.overflowPolicy = .dropOldest
        let waiting = PausableTestOperation()
        queue.addOperation(waiting)
        let cancelled = PausableTestOperation()
        cancelled.cancel()
        queue.addOperation(cancelled)
        #expect(cancelled.isFinished && !waiting.isCancelled)
        running.finish()
        waiting.finish()
        #expect(drains(queue))
    }

    @Test func `cancelling everything starts nothing, for any order, priorities and dependencies`() {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 2
        let gauge = Gauge()
        let operations = (0..<40).map { number in
            let operation = PausableTestOperation(host: "\(number % 3)", gauge: gauge)
            if number > 30 { operation.queuePriority = .veryHigh }
            return operation
        }
        // Older operations depend on newer ones, whose end must not start them.
        for number in stride(from: 4, to: 30, by: 2) { operations[number].addDependency(operations[number + 1]) }
        queue.isSuspended = true
        queue.addOperations(operations, waitUntilFinished: false)
        // The newest operations run.
        queue.isSuspended = false
        #expect(gauge.total == 2 && operations[31].isExecuting)
        queue.cancelAllOperations()
        #expect(gauge.total == 2)
        #expect(operations.filter { $0.isFinished && $0.timesFinished == 1 }.count == 40)
        #expect(queue.queuedOperationCount == 0)
        // The queue still runs operations afterwards.
        let later = PausableTestOperation { $0.finish() }
        queue.addOperation(later)
        #expect(later.isFinished)
    }

    @Test func `cancelling everything empties a suspended queue, including barriers and foreign operations`() {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let (ran, never) = (Gauge(), ScheduledBlockOperation {})
        for number in 0..<30 {
            let operation: Operation =
                switch number % 3 {
                case 0: ScheduledBlockOperation { ran.enter() }
                case 1: BlockOperation { ran.enter() }
                default: PausableTestOperation(gauge: ran)
                }
            if number % 2 == 0 { operation.addDependency(never) }
            queue.addOperation(operation)
            if number % 10 == 9 { queue.addBarrierBlock { ran.enter() } }
        }
        queue.cancelAllOperations()
        #expect(drains(queue))
        #expect(ran.total == 0 && queue.isSuspended)
    }

    @Test(arguments: [true, false])
    func `a cancelled foreign operation that waits for a dependency finishes immediately`(isSuspended: Bool) {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let running = PausableTestOperation()
        queue.addOperation(running)
        queue.isSuspended = isSuspended
        let (waiting, slotless) = (BlockOperation {}, BlockOperation {})
        waiting.addDependency(BlockOperation {})
        let early = BlockOperation {}
        early.cancel()
        queue.addOperations([waiting, slotless, early], waitUntilFinished: false)
        waiting.cancel()
        slotless.cancel()
        #expect(returns { waiting.waitUntilFinished() })
        #expect(returns { early.waitUntilFinished() })
        // Foundation does not report the cancellation of this operation, which gets its slot like the others.
        #expect(!slotless.isFinished)
        queue.isSuspended = false
        running.finish()
        #expect(drains(queue))
    }

    @Test func `foreign operations added while everything is cancelled are started once`() {
        let queue = RequestOperationQueue()
        let added = Door()
        Thread {
            for _ in 0..<3_000 {
                let operation = BlockOperation {}
                operation.addDependency(ScheduledBlockOperation {})
                queue.addOperation(operation)
            }
            added.open()
        }.start()
        while queue.queuedOperationCount == 0 { sched_yield() }
        while queue.queuedOperationCount > 0 { queue.cancelAllOperations() }
        #expect(added.wait())
        queue.cancelAllOperations()
        #expect(drains(queue))
    }

    @Test func `a cancelled batch finishes immediately in a suspended queue, otherwise when started`() throws {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:1/")))
        for isQueued in [true, false] {
            let operations = URLConnectionOperation.batch(of: [HTTPRequestOperation(request: request)])
            let batch = try #require(operations.last)
            if isQueued { queue.addOperation(batch) }
            batch.cancel()
            #expect(batch.isFinished == isQueued && batch.isCancelled)
            if !isQueued { batch.start() }
            #expect(batch.isFinished)
        }
        #expect(queue.queuedOperationCount == 0)
    }
}

/// Tests that cancelled `await` calls return immediately.
@Suite struct CancelledAwaitTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager
    let queue = RequestOperationQueue()

    init() throws {
        server = try TestServer()
        server.route("GET", "/silent", .text("never").failing(.stallBeforeHead))
        manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.operationQueue = queue
    }

    /// Returns a task waiting for a response that cannot arrive, whose operation is in the queue.
    private func waitingTask() async -> Task<Int, any Error> {
        let manager = self.manager
        let before = queue.queuedOperationCount
        let task = Task<Int, any Error> { try await manager.get("silent") }
        while queue.queuedOperationCount == before { await Task.yield() }
        return task
    }

    @Test func `a cancelled request finishes while stalled requests occupy all slots`() async throws {
        queue.maxConcurrentOperationCount = 3
        let stalled = [await waitingTask(), await waitingTask(), await waitingTask()]
        try await server.waitForRequests(count: 3, timeout: 100)
        let task = await waitingTask()
        task.cancel()
        await #expect(throws: URLError.self) { try await task.value }
        // No slot was freed, so the operation did not wait for one.
        #expect(queue.queuedOperationCount == 3)
        #expect(server.requests.count == 3)
        for task in stalled { task.cancel() }
        for task in stalled { await #expect(throws: URLError.self) { try await task.value } }
        #expect(queue.queuedOperationCount == 0)
    }

    @Test func `a cancelled request in a suspended queue finishes`() async throws {
        queue.isSuspended = true
        let task = await waitingTask()
        task.cancel()
        await #expect(throws: URLError.self) { try await task.value }
        #expect(queue.queuedOperationCount == 0)
        #expect(server.requests.isEmpty)
    }
}
