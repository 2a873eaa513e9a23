import Foundation

/// Runs operations that are awaited outside any queue, in a queue of the library.
package enum AwaitedOperations {
    /// With the limits of a manager's queue, which a thousand awaited operations need as well.
    private static let queue = RequestOperationQueue.withDefaultLimits(named: "Convoy.Awaited")

    /// Starts an operation and all that it waits for, except those that are enqueued or were started. Only Convoy's
    /// operations are started: others may be in a queue.
    package static func start(_ operation: ScheduledOperation) {
        guard operation.hasConnections else { return adopt(operation) }
        // Step by step: a chain may be long, and may be a circle.
        var seen: Set<ObjectIdentifier> = []
        var left = [operation]
        while let next = left.popLast() {
            guard seen.insert(ObjectIdentifier(next)).inserted, !next.isFinished else { continue }
            adopt(next)
            // An operation that only has to finish waits for nothing.
            guard !next.endsWithoutWork else { continue }
            for case let dependency as ScheduledOperation in next.dependencies { left.append(dependency) }
        }
    }

    private static func adopt(_ operation: ScheduledOperation) {
        // Another `RequestOperationQueue` may be first even now: then it has the operation, and this one ignores it.
        guard operation.claimForAwaiting() else { return }
        // A refresh must not wait for operations that wait for its token.
        (Authenticator.isRefreshing ? RequestOperationQueue() : queue).addOperation(operation)
    }
}

extension OperationQueue {
    /// Adds an operation, unless it has finished or is in another queue, in which case Foundation's queue would trap.
    final func addUnlessTaken(_ operation: Operation) {
        guard !operation.isFinished else { return }
        // It ignores operations of other queues.
        if self is RequestOperationQueue { return addOperation(operation) }
        if let scheduled = operation as? ScheduledOperation, !scheduled.claimForFoundation() { return }
        addOperation(operation)
    }
}
