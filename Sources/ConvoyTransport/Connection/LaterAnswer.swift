import ConvoySupport

/// The answer to a question, which may come during the call that asks it, or later.
final class LaterAnswer<Value: Sendable>: Sendable {
    enum State: Sendable {
        case asking
        case awaited
        case given(Value)
    }

    private let state = Locked(State.asking)

    /// Stores the answer. True if the asking call has returned, so that the one who asked must be told.
    func give(_ value: Value) -> Bool {
        state.withLock { state in
            switch state {
            case .asking:
                state = .given(value)
                return false
            case .awaited:
                state = .given(value)
                return true
            case .given: return false
            }
        }
    }

    /// Returns the answer, or notes that it will come later.
    func awaitLater() -> State {
        state.withLock { state in
            if case .asking = state { state = .awaited }
            return state
        }
    }
}
