import Foundation

/// The internal queue for operations that are awaited without being in a queue.
package enum AwaitedOperations {
    /// A queue with the limits of a manager's queue, because even awaited operations can number in the thousands.
    private static let queue = RequestOperationQueue.withDefaultLimits(named: "Convoy.Awaited")

    /// Starts an operation and its direct and indirect dependencies, except those that are enqueued or started.
    /// Operations of other classes are not started, because they may be in a queue.
    package static func start(_ operation: ScheduledOperation) {
        guard operation.hasConnections else { return adopt(operation) }
        // The search is iterative and remembers visited operations, because a chain of dependencies may be long or
        // cyclic.
        var seen: Set<ObjectIdentifier> = []
        var left = [operation]
        while let next = left.popLast() {
            guard seen.insert(ObjectIdentifier(next)).inserted, !next.isFinished else { continue }
            adopt(next)
            // An operation that only has to finish does not wait for its dependencies.
            guard !next.endsWithoutWork else { continue }
            for case let dependency as ScheduledOperation in next.dependencies { left.append(dependency) }
        }
    }

    private static func adopt(_ operation: ScheduledOperation) {
        // If another `RequestOperationQueue` claims the operation first, this queue ignores it.
        guard operation.claimForAwaiting() else { return }
        // Use a separate queue for a token refresh, which must not wait for slots held by operations that wait for its
        // token.
        (Authenticator.isRefreshing ? RequestOperationQueue() : queue).addOperation(operation)
    }
}

extension OperationQueue {
    /// Adds an operation, unless it has finished or is in another queue. Foundation's queue would trap in these cases.
    final func addUnlessTaken(_ operation: Operation) {
        guard !operation.isFinished else { return }
        // A `RequestOperationQueue` ignores operations of other queues.
        if self is RequestOperationQueue { return addOperation(operation) }
        if let scheduled = operation as? ScheduledOperation, !scheduled.claimForFoundation() { return }
        addOperation(operation)
    }
}
