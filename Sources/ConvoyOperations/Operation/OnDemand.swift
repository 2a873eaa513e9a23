/// State that few owners need: an object that is created when one of its members is first set to a value.
@dynamicMemberLookup
struct OnDemand<State: OnDemandState> {
    /// The object; nil until a member has been set.
    private(set) var state: State?

    /// Whether a member has ever been set.
    var exists: Bool { state != nil }

    /// The object, created on first use.
    var made: State {
        mutating get {
            if let state { return state }
            let made = State()
            state = made
            return made
        }
    }

    subscript<Value>(dynamicMember member: ReferenceWritableKeyPath<State, Value?>) -> Value? {
        @inline(__always) get {
            guard let state else { return nil }
            return state[keyPath: member]
        }
        @inline(__always) set {
            if newValue == nil, state == nil { return }
            made[keyPath: member] = newValue
        }
    }

    /// Removes and returns the object, so that its members are released outside a lock.
    mutating func take() -> State? { state.take() }
}

/// State whose members are all nil or empty at first.
protocol OnDemandState: AnyObject {
    init()
}
