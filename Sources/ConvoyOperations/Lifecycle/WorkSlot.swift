import ConvoySupport
import ConvoyTransport

/// The phase of an operation's current try, and its connection, so that a stop can reach it. A value; the operation
/// guards it with a lock.
///
/// The lifecycle's actions arrive here from several threads, in any order, so each call names its try. A stop that
/// arrives before its try has begun is remembered until then; calls for a try that has ended are ignored. The lifecycle
/// begins a try only when the previous one has ended, so there is never more than one at a time.
struct WorkSlot {
    typealias TryNumber = Lifecycle.TryNumber

    enum Phase {
        case idle
        /// Begun, but without a connection yet. A stop is only noted, and found when the next step is made; a call of a
        /// user's code can be given up.
        case preparing(BlockingCall?)
        case connected(any Connection)
        /// The transfer is over and its outcome is being produced: there is nothing to stop.
        case concluding
        /// The same, by a serializer, which is a user's code: it can be given up.
        case processing
    }

    /// What a stop requires.
    enum Stop {
        case nothing
        case cancel(any Connection)
        /// The try has ended, without an outcome. The call was given up with it.
        case ended(BlockingCall?)
    }

    /// Changed only here, and by tests that explore copies of it.
    var phase = Phase.idle
    /// The current try, or the last one.
    private(set) var number: TryNumber = 0
    /// The last try that was asked to stop.
    private(set) var stopped: TryNumber = 0

    /// A try begins.
    mutating func begin(_ number: TryNumber) {
        self.number = number
        phase = .preparing(nil)
        // The stop may have arrived already. Otherwise `stopped` is moved up to the previous try: numbers wrap around,
        // and are compared by their distance.
        if stopped != number { stopped = number &- 1 }
    }

    /// Asks a try to stop.
    ///
    /// - Parameter isFinal: whether no code of a user's is waited for, as the operation is ending.
    mutating func stop(_ number: TryNumber, isFinal: Bool) -> Stop {
        guard Int16(bitPattern: number &- stopped) >= 0 else { return .nothing }
        stopped = number
        guard number == self.number else { return .nothing }
        switch phase {
        case .idle, .concluding: return .nothing
        case .connected(let connection): return .cancel(connection)
        case .preparing(let call):
            // Without a call it is the library's own code, which makes the next step at once.
            guard isFinal, let call, call.giveUp() else { return .nothing }
            phase = .idle
            return .ended(call)
        case .processing:
            guard isFinal else { return .nothing }
            phase = .idle
            return .ended(nil)
        }
    }

    /// Ends a try that is still preparing, if it was asked to stop. Returns whether it did.
    mutating func endIfStopped(_ number: TryNumber) -> Bool {
        guard isPreparing(number), stopped == number else { return false }
        phase = .idle
        return true
    }

    /// Notes that a try, which is preparing, calls a user's code. False if it was asked to stop: then it has ended.
    mutating func prepare(_ number: TryNumber, by call: BlockingCall) -> Bool {
        guard isPreparing(number), !endIfStopped(number) else { return false }
        phase = .preparing(call)
        return true
    }

    /// Notes that a serializer produces the outcome of a try. False if the try has ended.
    mutating func process(_ number: TryNumber) -> Bool {
        guard number == self.number, case .concluding = phase else { return false }
        phase = .processing
        return true
    }

    /// Notes that the serializer has produced the outcome of a try. False if it was not waited for.
    mutating func didProcess(_ number: TryNumber) -> Bool {
        guard number == self.number, case .processing = phase else { return false }
        phase = .concluding
        return true
    }

    /// Gives a try its connection. False if the try was asked to stop or has ended, so that the connection is not
    /// needed.
    mutating func connect(_ number: TryNumber, _ connection: any Connection) -> Bool {
        guard isPreparing(number), stopped != number else { return false }
        phase = .connected(connection)
        return true
    }

    /// Gives a try something else to stop, as its connection has ended. False if the try was asked to stop or has ended.
    mutating func reconnect(_ number: TryNumber, _ connection: any Connection) -> Bool {
        guard number == self.number, case .connected = phase, stopped != number else { return false }
        phase = .connected(connection)
        return true
    }

    /// Notes that the transfer of a try is over. False if the try has already ended.
    mutating func conclude(_ number: TryNumber) -> Bool {
        guard isUnderWay(number) else { return false }
        phase = .concluding
        return true
    }

    /// Ends a try without an outcome. False if it has already ended.
    mutating func end(_ number: TryNumber) -> Bool {
        guard isUnderWay(number) else { return false }
        phase = .idle
        return true
    }

    /// Whether a try has begun, and has neither ended nor reached `concluding`.
    private func isUnderWay(_ number: TryNumber) -> Bool {
        guard number == self.number else { return false }
        switch phase {
        case .preparing, .connected: return true
        case .idle, .concluding, .processing: return false
        }
    }

    private func isPreparing(_ number: TryNumber) -> Bool {
        guard number == self.number, case .preparing = phase else { return false }
        return true
    }
}
