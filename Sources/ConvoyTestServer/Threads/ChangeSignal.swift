import ConvoySupport

/// Wakes callers that wait for a change. Without waiters, it costs only a lock.
///
/// A waiter reads the generation, checks its condition, and then registers for that generation, so that a change in
/// between is never missed.
final class ChangeSignal: Sendable {
    private struct State {
        var generation: UInt64 = 0
        var nextWaiter: UInt64 = 0
        var waiters: [UInt64: @Sendable () -> Void] = [:]
    }

    private let state = ContendedLock(State())

    var generation: UInt64 { state.withLock { $0.generation } }

    /// Calls every waiter once, on this thread.
    func raise() {
        let waiters = state.withLock { state in
            state.generation &+= 1
            defer { state.waiters = [:] }
            return state.waiters
        }
        for wake in waiters.values { wake() }
    }

    /// Registers a waiter, which is called once. Returns nil, without registering it, if the generation is already
    /// over.
    func register(after generation: UInt64, _ wake: @escaping @Sendable () -> Void) -> UInt64? {
        state.withLock { state in
            guard state.generation == generation else { return nil }
            state.nextWaiter &+= 1
            state.waiters[state.nextWaiter] = wake
            return state.nextWaiter
        }
    }

    /// Removes a waiter and calls it, if it has not been called.
    func fire(_ waiter: UInt64) {
        let wake = state.withLock { $0.waiters.removeValue(forKey: waiter) }
        wake?()
    }
}
