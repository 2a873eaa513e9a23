import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// User operations that override `start()` and post their end like any `Operation`. Like user code, they can use only
/// public declarations.
struct OverriddenStartTests {
    enum End: CaseIterable, Sendable {
        /// The operation ends while `start()` runs, or later.
        case inside, later
        /// The operation ends while `start()` runs, without posting its end. Foundation's queue detects such an end,
        /// too.
        case unposted
    }

    private final class UserOperation: ScheduledOperation, @unchecked Sendable {
        private let end: End
        private let phase = Atomic<Int>(0)

        init(_ end: End) { self.end = end }

        override var isAsynchronous: Bool { true }
        override var isExecuting: Bool { phase.load(ordering: .sequentiallyConsistent) == 1 }
        override var isFinished: Bool { phase.load(ordering: .sequentiallyConsistent) == 2 }

        override func start() {
            phase.store(1, ordering: .sequentiallyConsistent)
            didChangeValue(forKey: "isExecuting")
            switch end {
            case .inside: finish()
            case .later where !isCancelled: DispatchQueue.global().async { self.finish() }
            case .later: finish()
            case .unposted: phase.store(2, ordering: .sequentiallyConsistent)
            }
        }

        private func finish() {
            phase.store(2, ordering: .sequentiallyConsistent)
            didChangeValue(forKey: "isFinished")
        }
    }

    @Test(arguments: End.allCases)
    func `operations with an overridden start return slots, unblock dependents and leave the queue`(end: End) {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let completed = DispatchGroup()
        let operations = (0..<200).map { _ in UserOperation(end) }
        let order = Log()
        for (number, operation) in operations.enumerated() {
            completed.enter()
            operation.completionBlock = { completed.leave() }
            let dependent = ScheduledBlockOperation { order.add("\(number) \(operation.isFinished)") }
            dependent.addDependency(operation)
            queue.addOperations([dependent, operation], waitUntilFinished: false)
        }
        queue.addBarrierBlock { order.add("barrier") }
        #expect(drains(queue))
        #expect(order.all.count == 201 && order.all.last == "barrier")
        #expect(!order.all.contains { $0.hasSuffix("false") })
        #expect(completed.wait(timeout: .now() + patience) == .success)
    }

    enum Starter: CaseIterable, Sendable { case foundation, hand }

    @Test(arguments: End.allCases, Starter.allCases)
    func `outside Convoy's queues, operations with an overridden start unblock their dependents`(
        end: End, by starter: Starter
    ) {
        // Only Foundation's queue detects an end that is not posted.
        guard end != .unposted || starter == .foundation else { return }
        let queue = RequestOperationQueue()
        let foundation = OperationQueue()
        for _ in 0..<100 {
            let operation = UserOperation(end)
            let dependents = (0..<2).map { _ in ScheduledBlockOperation {} }
            for dependent in dependents { dependent.addDependency(operation) }
            queue.addOperations(dependents, waitUntilFinished: false)
            if starter == .hand { operation.start() } else { foundation.addOperation(operation) }
        }
        #expect(drains(queue))
    }

    @Test func `a long chain of operations with an overridden start is released without recursion`() {
        var last = UserOperation(.inside)
        weak let first = last
        for _ in 0..<100_000 {
            let next = UserOperation(.inside)
            next.addDependency(last)
            last = next
        }
        #expect(first != nil)
        last = UserOperation(.inside)
        #expect(first == nil)
    }

    @Test(arguments: End.allCases) func `an operation cancelled in a suspended queue finishes immediately`(end: End) throws {
        let queue = RequestOperationQueue()
        queue.isSuspended = true
        let operation = UserOperation(end)
        queue.addOperation(operation)
        operation.cancel()
        #expect(eventually { operation.isFinished && queue.queuedOperationCount == 0 })
    }

    @Test func `operations with an overridden start are released`() {
        let queue = RequestOperationQueue()
        weak var released: UserOperation?
        do {
            let operation = UserOperation(.later)
            released = operation
            queue.addOperation(operation)
            #expect(drains(queue))
        }
        #expect(eventually { released == nil })
    }

    /// An operation that blocks in `start()` after the library's code has run.
    private final class SlowOperation: HTTPRequestOperation, @unchecked Sendable {
        let door = Door()
        /// Whether the door was not opened in time.
        let wasForgotten = Locked(false)

        override func start() {
            super.start()
            let isOpen = door.wait()
            wasForgotten.withLock { $0 = !isOpen }
        }
    }

    @Test func `an operation that has finished but not left start() does not block other starts`() throws {
        let server = try TestServer()
        server.route("/x", .text("x"))
        let queue = RequestOperationQueue()
        let operations = (0..<3).map { _ in SlowOperation(request: URLRequest(url: server.url("/x"))) }
        for operation in operations {
            queue.addOperation(operation)
            #expect(eventually { operation.isFinished && !queue.queuedOperations.contains(operation) })
        }
        #expect(operations.allSatisfy { !$0.wasForgotten.withLock { $0 } })
        for operation in operations { operation.door.open() }
        #expect(drains(queue))
    }

    /// An operation whose `isCancelled` depends on a value of the subclass.
    private final class RevokedOperation: ScheduledOperation, @unchecked Sendable {
        private let hasWorked = Atomic<Bool>(false)
        var worked: Bool { hasWorked.load(ordering: .sequentiallyConsistent) }

        override var isCancelled: Bool { true }
        override func main() { hasWorked.store(true, ordering: .sequentiallyConsistent) }
    }

    @Test func `an operation that reports itself as cancelled neither works nor waits`() {
        let queue = RequestOperationQueue()
        let (first, alone) = (RevokedOperation(), RevokedOperation())
        first.addDependency(ScheduledBlockOperation {})
        queue.addOperation(first)
        alone.start()
        #expect(drains(queue))
        #expect(first.isFinished && !first.worked && alone.isFinished && !alone.worked)
    }
}
