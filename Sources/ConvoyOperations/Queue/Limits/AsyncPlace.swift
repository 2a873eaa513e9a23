import ConvoySupport
import Synchronization

/// What connects a task that waits for a place with its cancellation, which may come before, while or after it waits.
final class AsyncPlace: Sendable {
    private struct Claim {
        var waiter: LengthWaiter?
        var isCancelled = false
    }

    private let state = Locked(Claim())

    /// False if the task was cancelled before.
    func keep(_ waiter: LengthWaiter) -> Bool {
        state.withLock { state in
            guard !state.isCancelled else { return false }
            state.waiter = waiter
            return true
        }
    }

    /// The waiter to be told, if there is one already.
    func cancel() -> LengthWaiter? {
        state.withLock { state in
            state.isCancelled = true
            return state.waiter
        }
    }
}
