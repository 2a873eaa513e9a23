import Foundation
import Synchronization
import Testing

@testable import ConvoyOperations

struct QueueLeakTests {
    private final class Token: Sendable {
        static let alive = Atomic<Int>(0)
        init() { Self.alive.add(1, ordering: .sequentiallyConsistent) }
        deinit { Self.alive.subtract(1, ordering: .sequentiallyConsistent) }
    }

    private final class CountedQueue: RequestOperationQueue, @unchecked Sendable {
        let token = Token()
    }

    private final class CountedForeign: Operation, @unchecked Sendable {
        let token = Token()
    }

    @Test func `operations, blocks and queues are released when everything has finished`() {
        for round in 0..<20 {
            let queue = CountedQueue()
            queue.maxConcurrentOperationCount = round % 2 == 0 ? 2 : -1
            queue.progress.totalUnitCount = 100
            var previous: Operation?
            for number in 0..<100 {
                let token = Token()
                let operation: Operation =
                    switch number % 4 {
                    case 0: ScheduledBlockOperation { _ = token }
                    case 1: CountedForeign()
                    case 2: BlockOperation { _ = token }
                    default:
                        PausableTestOperation { [token] in
                            _ = token
                            $0.finish()
                        }
                    }
                operation.completionBlock = { _ = token }
                if let previous, number % 3 == 0 { operation.addDependency(previous) }
                queue.addOperation(operation)
                if number % 30 == 7 { operation.cancel() }
                if number % 50 == 9 { queue.addBarrierBlock { _ = token } }
                previous = operation
            }
            #expect(drains(queue))
        }
        #expect(eventually { Token.alive.load(ordering: .sequentiallyConsistent) == 0 })
    }

    @Test func `operations that never ran are released together with their dependencies`() {
        weak var first: Operation?
        weak var second: Operation?
        do {
            let operation = ScheduledBlockOperation {}
            let dependency = CountedDependency()
            let foreign = BlockOperation {}
            operation.addDependency(dependency)
            operation.addDependency(foreign)
            dependency.addDependency(foreign)
            first = dependency
            second = foreign
        }
        #expect(first == nil && second == nil)
    }

    private final class CountedDependency: ScheduledOperation, @unchecked Sendable {}
}
