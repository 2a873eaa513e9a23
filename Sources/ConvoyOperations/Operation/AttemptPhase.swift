import ConvoySupport
import ConvoyTransport

/// The phase of an attempt, by which a stop can reach it. A value; the operation guards it with its lock.
///
/// The lifecycle decides whether an attempt must stop, and changes before the stop arrives here. Each step of an
/// attempt checks it under the lock: a step sees an earlier stop, and a later stop sees the step. So no stop needs to
/// be stored.
enum AttemptPhase {
    /// Begun, but without a connection yet. A call of user code can be given up.
    case preparing(BlockingCall?)
    case connected(any Connection)
    /// Something other than a connection does the work; `stop` is called at most once.
    case working(stop: (@Sendable () -> Void)?)
    /// The transfer is over, and a serializer produces the outcome. That is user code, which can be given up.
    case processing
    /// Ended, with or without an outcome: there is nothing to stop.
    case ended

    /// What a stop requires.
    enum Stop {
        case nothing
        /// Call this. The attempt ends later.
        case call(@Sendable () -> Void)
        /// The attempt has ended, without an outcome. The call was given up with it.
        case ended(BlockingCall?)
    }

    /// Whether it has no connection yet, and nothing else that does its work.
    var isPreparing: Bool {
        if case .preparing = self { true } else { false }
    }

    /// Whether it has neither ended nor reached its serializer.
    var isUnderWay: Bool {
        switch self {
        case .preparing, .connected, .working: true
        case .processing, .ended: false
        }
    }

    /// Asks the attempt to stop.
    ///
    /// - Parameter isFinal: whether not to wait for user code, as the operation is ending.
    mutating func stop(isFinal: Bool) -> Stop {
        switch self {
        case .ended: return .nothing
        case .connected(let connection): return .call { connection.cancel() }
        case .working(let stop):
            self = .working(stop: nil)
            return .call(stop ?? {})
        case .preparing(let call):
            // Without a call it is the library's own code, which takes the next step at once.
            guard isFinal, let call, call.giveUp() else { return .nothing }
            self = .ended
            return .ended(call)
        case .processing:
            guard isFinal else { return .nothing }
            self = .ended
            return .ended(nil)
        }
    }

    /// Takes the next step. False if the attempt has ended or must stop: it then keeps its phase, and has to end.
    mutating func advance(to next: AttemptPhase, unless isStopping: Bool) -> Bool {
        guard isUnderWay, !isStopping else { return false }
        self = next
        return true
    }

    /// Ends the attempt: its transfer is over, or it has stopped. Returns the phase it was in, to be released outside the
    /// lock; nil if it has ended already.
    mutating func end() -> AttemptPhase? {
        guard isUnderWay else { return nil }
        defer { self = .ended }
        return self
    }

    /// Notes that the serializer has produced the outcome. False if the attempt no longer waits for it.
    mutating func didProcess() -> Bool {
        guard case .processing = self else { return false }
        self = .ended
        return true
    }
}
