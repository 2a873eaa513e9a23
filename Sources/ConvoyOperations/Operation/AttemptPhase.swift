import ConvoySupport
import ConvoyTransport

/// The phase of an attempt, which determines how to stop it. A value, guarded by the operation's lock.
///
/// The lifecycle decides whether an attempt must stop, and changes before the attempt is stopped. Each step of an
/// attempt checks the lifecycle under the lock: a step observes an earlier stop, and a later stop observes the step. So
/// no stop has to be stored.
enum AttemptPhase {
    /// Begun, but not connected. A call of user code can be abandoned.
    case preparing(BlockingCall?)
    case connected(any Connection)
    /// Work other than a connection is in progress; `stop` is called at most once.
    case working(stop: (@Sendable () -> Void)?)
    /// The transfer is over, and a serializer produces the outcome. This is user code, which can be abandoned.
    case processing
    /// Ended, with or without an outcome; there is nothing to stop.
    case ended

    /// The action that a stop requires.
    enum Stop {
        case nothing
        /// Call the closure. The attempt ends later.
        case call(@Sendable () -> Void)
        /// The attempt has ended without an outcome. The call was abandoned with it.
        case ended(BlockingCall?)
    }

    /// Whether the attempt has neither a connection nor other work in progress.
    var isPreparing: Bool {
        if case .preparing = self { true } else { false }
    }

    /// Whether the attempt has neither ended nor reached its serializer.
    var isUnderWay: Bool {
        switch self {
        case .preparing, .connected, .working: true
        case .processing, .ended: false
        }
    }

    /// Stops the attempt.
    ///
    /// - Parameter isFinal: Whether to stop without waiting for user code, because the operation is ending.
    mutating func stop(isFinal: Bool) -> Stop {
        switch self {
        case .ended: return .nothing
        case .connected(let connection): return .call { connection.cancel() }
        case .working(let stop):
            self = .working(stop: nil)
            return .call(stop ?? {})
        case .preparing(let call):
            // Without a call, this is the library's own code, which takes the next step shortly.
            guard isFinal, let call, call.giveUp() else { return .nothing }
            self = .ended
            return .ended(call)
        case .processing:
            guard isFinal else { return .nothing }
            self = .ended
            return .ended(nil)
        }
    }

    /// Takes the next step. Returns false if the attempt has ended or must stop: it then keeps its phase, and the
    /// caller must end it.
    mutating func advance(to next: AttemptPhase, unless isStopping: Bool) -> Bool {
        guard isUnderWay, !isStopping else { return false }
        self = next
        return true
    }

    /// Ends an attempt whose transfer is over or was stopped. Returns its previous phase, to be released outside the
    /// lock; nil if it has already ended.
    mutating func end() -> AttemptPhase? {
        guard isUnderWay else { return nil }
        defer { self = .ended }
        return self
    }

    /// Records that the serializer has produced the outcome. Returns false if the attempt no longer waits for it.
    mutating func didProcess() -> Bool {
        guard case .processing = self else { return false }
        self = .ended
        return true
    }
}
