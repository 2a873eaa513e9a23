import ConvoySupport
import ConvoyTransport

/// The phase of an attempt, which determines how to stop it. The operation's lock guards it.
///
/// The lifecycle decides whether an attempt must stop, and changes before the attempt is stopped. Each step of an
/// attempt checks the lifecycle under the lock, so a step observes an earlier stop, and a later stop observes the step.
/// Therefore stops do not have to be stored.
enum AttemptPhase {
    /// The attempt has begun, but is not connected. The associated call runs user code, and can be abandoned.
    case preparing(BlockingCall?)
    case connected(any Connection)
    /// Work other than a connection is in progress; `stop` is called at most once.
    case working(stop: (@Sendable () -> Void)?)
    /// The transfer is over, and a serializer produces the outcome. This is user code, which can be abandoned.
    case processing
    /// The attempt has ended, with or without an outcome. A stop has no effect.
    case ended

    /// The action that a stop requires.
    enum Stop {
        case nothing
        /// Call the closure. The attempt ends later.
        case call(@Sendable () -> Void)
        /// The attempt has ended without an outcome. The associated call, if any, was abandoned.
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
            // Without a call, the library's own code is running. It takes the next step soon and then observes the
            // stop.
            guard isFinal, let call, call.giveUp() else { return .nothing }
            self = .ended
            return .ended(call)
        case .processing:
            guard isFinal else { return .nothing }
            self = .ended
            return .ended(nil)
        }
    }

    /// Takes the next step. If the attempt has ended or must stop, returns false without changing the phase, and the
    /// caller must end the attempt.
    mutating func advance(to next: AttemptPhase, unless isStopping: Bool) -> Bool {
        guard isUnderWay, !isStopping else { return false }
        self = next
        return true
    }

    /// Ends an attempt whose transfer is over or was stopped. Returns the previous phase, which the caller must release
    /// outside the lock; nil if the attempt has already ended.
    mutating func finish() -> AttemptPhase? {
        guard isUnderWay else { return nil }
        defer { self = .ended }
        return self
    }

    /// Records that the serializer has produced the outcome. Returns false if the attempt no longer waits for the
    /// outcome.
    mutating func didProcess() -> Bool {
        guard case .processing = self else { return false }
        self = .ended
        return true
    }
}
