import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests that completion handlers set after the end are also called once, on their queue.
@Suite struct LateHandlerTests {
    private let network = ThreadedTransport()
    private let queue = DispatchQueue(label: "late")
    private let key = DispatchSpecificKey<Bool>()

    init() {
        network.serve()
        queue.setSpecific(key: key, value: true)
    }

    private func operation() -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(
            request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network)
        operation.completionQueue = queue
        return operation
    }

    private func finish(_ operation: URLConnectionOperation) -> Bool {
        let delivered = Signal()
        operation.whenDelivered { delivered.fire() }
        operation.start()
        return delivered.wait()
    }

    @Test(arguments: [false, true]) func `handlers set after the end are called once on their queue`(fails: Bool) {
        let operation = operation()
        if fails { operation.cancel() }
        #expect(finish(operation))
        let calls = Log()
        operation.setCompletionHandler(
            success: { [key] _, _ in calls.add("success \(DispatchQueue.getSpecific(key: key) == true)") },
            failure: { [key] _, _ in calls.add("failure \(DispatchQueue.getSpecific(key: key) == true)") })
        queue.sync {}
        operation.completionBlock = { [key] in calls.add("completion \(DispatchQueue.getSpecific(key: key) == true)") }
        queue.sync {}
        #expect(calls.all == ["\(fails ? "failure" : "success") true", "completion true"])
        #expect(operation.completionBlock == nil)
    }

    @Test func `handlers set from within each other are all called`() {
        let operation = operation()
        let calls = Log()
        let all = Signal()
        operation.completionBlock = { [weak operation] in
            calls.add("first")
            operation?.completionBlock = { [weak operation] in
                calls.add("second")
                operation?.setCompletionHandler { _, _ in
                    calls.add("third")
                    all.fire()
                }
            }
        }
        operation.start()
        #expect(all.wait())
        #expect(calls.all == ["first", "second", "third"])
    }

    @Test func `a handler that is replaced before its call is not called`() {
        let operation = operation()
        #expect(finish(operation))
        let calls = Log()
        queue.suspend()
        operation.completionBlock = { calls.add("replaced") }
        operation.completionBlock = { calls.add("kept") }
        queue.resume()
        queue.sync {}
        #expect(calls.all == ["kept"])
    }

    @Test func `a closure that is set too late to be called is not retained`() {
        let operation = operation()
        #expect(finish(operation))
        weak var left: Log?
        do {
            let log = Log()
            left = log
            operation.downloadProgressHandler = { _, _, _ in log.add("bytes") }
            operation.prepare = { _ in log.add("prepared") }
        }
        #expect(left == nil)
    }

    @Test func `a batch and a block operation call completion blocks set after their end`() {
        let batch = BatchOperation(of: [])
        let operations: [Operation] = [batch, ScheduledBlockOperation {}]
        for operation in operations {
            operation.start()
            #expect(eventually { operation.isFinished })
            let called = Signal()
            operation.completionBlock = { called.fire() }
            #expect(called.wait())
            #expect(operation.completionBlock == nil)
        }
    }

    /// The handlers are set while the operation ends.
    @Test func `handlers set concurrently with the end are called exactly once`() {
        let count = PropertyBudget.rounds(500)
        let calls = (0..<4).map { _ in Counts(count) }
        let operations = (0..<count).map { _ in operation() }
        let blocks = (0..<count).map { _ in ScheduledBlockOperation {} }
        let setter = Signal()
        let position = Atomic<Int>(-1)
        Thread { [operations] in
            for index in 0..<count {
                while position.load(ordering: .acquiring) < index { sched_yield() }
                for _ in 0..<(index % 40) { sched_yield() }
                let operation = operations[index]
                if index % 2 == 0 { operation.completionQueue = testQueue }
                operation.setCompletionHandler { _, _ in calls[0].add(index) }
                operation.completionBlock = { calls[1].add(index) }
                blocks[index].completionBlock = { calls[2].add(index) }
                operation.whenDelivered { calls[3].add(index) }
            }
            setter.fire()
        }.start()
        for (index, operation) in operations.enumerated() {
            position.store(index, ordering: .releasing)
            operation.start()
            blocks[index].start()
        }
        #expect(setter.wait())
        #expect(eventually { calls.allSatisfy { $0.total == count } })
        queue.sync {}
        testQueue.sync {}
        #expect(calls.allSatisfy { $0.isOneEach })
    }

    private final class Counts: Sendable {
        private let counts: Locked<[Int]>
        init(_ count: Int) { counts = Locked(Array(repeating: 0, count: count)) }
        func add(_ index: Int) { counts.withLock { $0[index] += 1 } }
        var total: Int { counts.withLock { $0.reduce(0, +) } }
        var isOneEach: Bool { counts.withLock { $0.allSatisfy { $0 == 1 } } }
    }
}
