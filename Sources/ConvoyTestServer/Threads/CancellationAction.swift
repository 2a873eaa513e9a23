import ConvoySupport

/// An action that runs on cancellation, whether it is set before or after that.
final class CancellationAction: Sendable {
    private struct State {
        var action: (@Sendable () -> Void)?
        var isCancelled = false
    }

    private let state = Locked(State())

    /// Sets the action, or runs it at once if it has already been cancelled.
    func set(_ action: @escaping @Sendable () -> Void) {
        let isCancelled = state.withLock { state in
            if !state.isCancelled { state.action = action }
            return state.isCancelled
        }
        if isCancelled { action() }
    }

    /// Runs the action, now or as soon as it is set.
    func cancel() {
        let action = state.withLock { state in
            state.isCancelled = true
            defer { state.action = nil }
            return state.action
        }
        action?()
    }
}
