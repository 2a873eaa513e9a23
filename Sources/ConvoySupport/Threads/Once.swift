/// A value that is set once, by any thread, and passed once to a handler, whichever comes last.
///
/// The value is released when it has been passed on, and the handler when it has been called. Neither is kept under a
/// lock while code runs.
package final class Once<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case awaited(@Sendable (Value) -> Void)
        case set(Value)
        case passedOn
    }

    private let state = Locked(State.empty)
    private let fallback: Value?

    /// Creates an object without a value and a handler.
    package init() { fallback = nil }

    /// Creates an object whose handler is called when the value is set.
    ///
    /// - Parameter fallback: The value that is set if the object is released without a value; nil for none.
    package init(orElse fallback: Value? = nil, _ handler: @escaping @Sendable (Value) -> Void) {
        self.fallback = fallback
        state.withLock { $0 = .awaited(handler) }
    }

    deinit { if let fallback { set(fallback) } }

    /// Whether the value has been set.
    package var isSet: Bool {
        state.withLock { state in
            switch state {
            case .empty, .awaited: false
            case .set, .passedOn: true
            }
        }
    }

    /// Sets the value, and calls the handler on this thread if there is one. Returns false, without effect, if the value
    /// has been set before.
    @discardableResult
    package func set(_ value: Value) -> Bool {
        let (isFirst, handler): (Bool, (@Sendable (Value) -> Void)?) = state.withLock { state in
            switch state {
            case .empty:
                state = .set(value)
                return (true, nil)
            case .awaited(let handler):
                state = .passedOn
                return (true, handler)
            case .set, .passedOn: return (false, nil)
            }
        }
        handler?(value)
        return isFirst
    }

    /// Calls a handler with the value, on this thread if the value has been set. Replaces a handler that has not been
    /// called. Does nothing if the value has been passed to another handler.
    package func whenSet(_ handler: @escaping @Sendable (Value) -> Void) {
        var replaced: State?
        let value: Value? = state.withLock { state in
            switch state {
            case .empty, .awaited:
                replaced = state
                state = .awaited(handler)
                return nil
            case .set(let value):
                state = .passedOn
                return value
            case .passedOn: return nil
            }
        }
        withExtendedLifetime(replaced) {}
        if let value { handler(value) }
    }

    /// Takes the value, if it has been set and not passed on.
    package func take() -> Value? {
        state.withLock { state in
            guard case .set(let value) = state else { return nil }
            state = .passedOn
            return value
        }
    }
}
