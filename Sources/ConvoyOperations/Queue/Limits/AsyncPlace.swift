import ConvoySupport
import Synchronization

/// What connects a task that waits for a place with its cancellation, which may come before, while or after it waits.
final class AsyncPlace: Sendable {
    private struct Wait {
        var waiter: LengthWaiter?
        var isCancelled = false
    }

    private let wait = Locked(Wait())

    /// False if the task was cancelled before.
    func keep(_ waiter: LengthWaiter) -> Bool {
        wait.withLock { wait in
            guard !wait.isCancelled else { return false }
            wait.waiter = waiter
            return true
        }
    }

    /// The waiter to be told, if there is one already.
    func cancel() -> LengthWaiter? {
        wait.withLock { wait in
            wait.isCancelled = true
            return wait.waiter
        }
    }
}
