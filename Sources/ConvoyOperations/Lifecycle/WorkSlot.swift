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
        /// Begun, but without a connection yet. A stop is only noted.
        case preparing
        case connected(any Connection)
        /// The transfer is over and its outcome is being produced: there is nothing to stop.
        case concluding
    }

    private(set) var phase = Phase.idle
    /// The current try, or the last one.
    private(set) var number: TryNumber = 0
    /// The last try that was asked to stop.
    private(set) var stopped: TryNumber = 0

    /// A try begins.
    mutating func begin(_ number: TryNumber) {
        self.number = number
        phase = .preparing
        // The stop may have arrived already. Otherwise `stopped` is moved up to the previous try: numbers wrap around,
        // and are compared by their distance.
        if stopped != number { stopped = number &- 1 }
    }

    /// Asks a try to stop. Returns the connection to cancel, if the try has one.
    mutating func stop(_ number: TryNumber) -> (any Connection)? {
        guard Int16(bitPattern: number &- stopped) >= 0 else { return nil }
        stopped = number
        guard number == self.number, case .connected(let connection) = phase else { return nil }
        return connection
    }

    /// Ends a try that is still preparing, if it was asked to stop. Returns whether it did.
    mutating func endIfStopped(_ number: TryNumber) -> Bool {
        guard isPreparing(number), stopped == number else { return false }
        phase = .idle
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
        case .idle, .concluding: return false
        }
    }

    private func isPreparing(_ number: TryNumber) -> Bool {
        guard number == self.number, case .preparing = phase else { return false }
        return true
    }
}
