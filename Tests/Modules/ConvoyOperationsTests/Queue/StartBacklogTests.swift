import ConvoySupport
import ConvoyTestSupport
import Foundation
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests the row in which one thread starts operations: no operation waits for one that takes long, and other work of
/// the dispatch queue gets its turn.
struct StartBacklogTests {
    /// An operation of a user's class, whose code goes on after its end.
    private final class LingeringOperation: ScheduledOperation, @unchecked Sendable {
        private let linger: @Sendable () -> Void

        init(_ linger: @escaping @Sendable () -> Void) {
            self.linger = linger
            super.init()
        }

        override func start() {
            super.start()
            linger()
        }
    }

    @Test func `operations that block do not hold back those behind them`() {
        let queue = RequestOperationQueue()
        let door = Door()
        let isInTime = Atomic<Int>(0)
        // Each of them waits for the last one, so all have to run at once.
        for _ in 0..<5 {
            queue.addOperation { if door.wait() { isInTime.add(1, ordering: .relaxed) } }
        }
        queue.addOperation { door.open() }
        #expect(drains(queue))
        #expect(isInTime.load(ordering: .relaxed) == 5)
    }

    @Test func `an operation can wait for one that it adds`() {
        let queue = RequestOperationQueue()
        let isInTime = Atomic<Bool>(false)
        queue.addOperation {
            let door = Door()
            queue.addOperation { door.open() }
            isInTime.store(door.wait(), ordering: .relaxed)
        }
        #expect(drains(queue))
        let wasInTime = isInTime.load(ordering: .relaxed)
        #expect(wasInTime)
    }

    @Test func `code after the end of an operation does not hold back its dependents`() {
        let queue = RequestOperationQueue()
        let door = Door()
        let isInTime = Atomic<Int>(0)
        let ended = Atomic<Int>(0)
        let first = LingeringOperation {
            if door.wait() { isInTime.add(1, ordering: .relaxed) }
            ended.add(1, ordering: .releasing)
        }
        let second = ScheduledBlockOperation { door.open() }
        second.addDependency(first)
        queue.addOperations([first, second], waitUntilFinished: false)
        #expect(drains(queue))
        #expect(eventually { ended.load(ordering: .acquiring) == 1 })
        #expect(isInTime.load(ordering: .relaxed) == 1)
    }

    @Test func `other work of the dispatch queue runs between many operations`() {
        let dispatchQueue = DispatchQueue(label: "Convoy.StartBacklogTests")
        let queue = RequestOperationQueue()
        queue.underlyingQueue = dispatchQueue
        let started = Atomic<Int>(0)
        let startedBefore = Atomic<Int>(-1)
        let door = Door()
        dispatchQueue.async { door.wait() }
        for _ in 0..<1_000 { queue.addOperation { started.add(1, ordering: .relaxed) } }
        dispatchQueue.async { startedBefore.store(started.load(ordering: .relaxed), ordering: .relaxed) }
        door.open()
        #expect(drains(queue))
        #expect(started.load(ordering: .relaxed) == 1_000)
        let count = startedBefore.load(ordering: .relaxed)
        #expect((0..<1_000).contains(count), "\(count) operations ran first")
    }
}
