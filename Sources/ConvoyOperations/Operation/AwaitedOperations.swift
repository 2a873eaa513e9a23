import Foundation

/// Operations that are awaited and are in no queue: they run in a queue of the library's own.
package enum AwaitedOperations {
    /// With the limits of a manager's queue, as a thousand operations that are awaited need the same.
    private static let queue = RequestOperationQueue.withDefaultLimits(named: "Convoy.Awaited")

    /// Starts an operation, and all that it waits for, as soon as that can be; but for what is in a queue or was started.
    ///
    /// Of what it waits for, only operations of Convoy's are started: of others it cannot be known whether they are in a
    /// queue.
    package static func start(_ operation: ScheduledOperation) {
        guard operation.hasConnections else { return adopt(operation) }
        // Step by step: a chain may be long, and may be a circle.
        var seen: Set<ObjectIdentifier> = []
        var left = [operation]
        while let next = left.popLast() {
            guard seen.insert(ObjectIdentifier(next)).inserted, !next.isFinished else { continue }
            adopt(next)
            // One that only has to finish waits for nothing.
            guard !next.endsWithoutWork else { continue }
            for case let dependency as ScheduledOperation in next.dependencies { left.append(dependency) }
        }
    }

    private static func adopt(_ operation: ScheduledOperation) {
        // Another `RequestOperationQueue` may come first even now: then it has the operation, and this one ignores it.
        guard operation.claimForAwaiting() else { return }
        // What refreshes a token must not wait for those that wait for the token.
        (Authenticator.isRefreshing ? RequestOperationQueue() : queue).addOperation(operation)
    }
}

extension OperationQueue {
    /// Adds an operation, unless it has finished or another queue has it: Foundation's queue would stop the program.
    final func addUnlessTaken(_ operation: Operation) {
        guard !operation.isFinished else { return }
        // It ignores what another queue has.
        if self is RequestOperationQueue { return addOperation(operation) }
        if let scheduled = operation as? ScheduledOperation, !scheduled.claimForFoundation() { return }
        addOperation(operation)
    }
}
