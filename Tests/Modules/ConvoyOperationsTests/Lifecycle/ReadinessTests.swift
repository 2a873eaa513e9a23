import ConvoySupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Changes that occur after a Foundation queue has evaluated `isReady` and before it has stored the answer.
@Suite struct ReadinessTests {
    /// An operation that runs a closure once, after it has returned its readiness and before that is stored.
    private final class ChangingOperation: HTTPRequestOperation, @unchecked Sendable {
        private struct Stored { let call: @Sendable () -> Void }
        private let change = Locked<Stored?>(nil)

        func whenRefused(_ change: @escaping @Sendable () -> Void) {
            self.change.withLock { $0 = Stored(call: change) }
        }

        override var isReady: Bool {
            let isReady = super.isReady
            if !isReady { change.withLock { $0.take() }?.call() }
            return isReady
        }
    }

    private let network = ThreadedTransport()

    private func operation() -> ChangingOperation {
        network.serve()
        let operation = ChangingOperation(
            request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network)
        operation.completionQueue = testQueue
        return operation
    }

    @Test(arguments: QueueKind.allCases, [false, true])
    func `resuming while a queue adds the operation is not lost`(kind: QueueKind, isSuspended: Bool) {
        let queue = kind.make()
        queue.isSuspended = isSuspended
        let operation = operation()
        operation.pause()
        operation.whenRefused { [weak operation] in operation?.resume() }
        queue.addOperation(operation)
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(operation.isFinished && operation.error == nil)
    }

    @Test(arguments: QueueKind.allCases)
    func `cancelling while a queue adds the paused operation is not lost`(kind: QueueKind) {
        let queue = kind.make()
        let operation = operation()
        operation.pause()
        operation.whenRefused { [weak operation] in operation?.cancel() }
        queue.addOperation(operation)
        #expect(drains(queue))
        #expect(operation.isFinished && operation.isCancelled)
    }

    @Test(arguments: QueueKind.allCases)
    func `the end of a dependency while a queue adds the operation is not lost`(kind: QueueKind) {
        let queue = kind.make()
        let operation = operation()
        let dependency = ScheduledBlockOperation {}
        operation.addDependency(dependency)
        operation.whenRefused { dependency.start() }
        queue.addOperation(operation)
        #expect(drains(queue))
        #expect(operation.isFinished && operation.error == nil)
    }
}
