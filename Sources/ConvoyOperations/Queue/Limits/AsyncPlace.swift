import ConvoySupport
import Synchronization

/// Connects a task that waits for a place with its cancellation, which may come before, during or after the wait.
final class AsyncPlace: Sendable {
    private struct Wait {
        var waiter: LengthWaiter?
        var isCancelled = false
    }

    private let wait = Locked(Wait())

    /// Stores the waiter. False if the task was already cancelled.
    func keep(_ waiter: LengthWaiter) -> Bool {
        wait.withLock { wait in
            guard !wait.isCancelled else { return false }
            wait.waiter = waiter
            return true
        }
    }

    /// Notes the cancellation. Returns the waiter to be told, if there is one already.
    func cancel() -> LengthWaiter? {
        wait.withLock { wait in
            wait.isCancelled = true
            return wait.waiter
        }
    }
}
