import ConvoyTransport

/// Who has the work of an operation at the moment, so that a stop finds it. A value; the operation keeps it behind a
/// lock.
///
/// What the lifecycle asks for arrives here from several threads, in any order. Each call names its try. A stop that
/// arrives before its try has begun is remembered until then; whatever concerns a try that has ended is ignored.
/// The lifecycle begins a try only when the one before has ended, so there is never more than one in here.
struct WorkSlot {
    typealias TryNumber = Lifecycle.TryNumber

    enum Phase {
        case idle
        /// Between the start and the connection. A stop is left as a note.
        case preparing
        case connected(any Connection)
        /// The transfer is over and its outcome is being made: nothing to stop.
        case concluding
    }

    private(set) var phase = Phase.idle
    /// The try that is in the slot, or was the last.
    private(set) var number: TryNumber = 0
    /// The last try that was asked to stop.
    private(set) var stopped: TryNumber = 0

    /// A try begins.
    mutating func begin(_ number: TryNumber) {
        self.number = number
        phase = .preparing
        // A stop may have come before. Else the note is of an older try, and is brought near: numbers are compared by
        // their distance, as they begin again at 0 some day.
        if stopped != number { stopped = number &- 1 }
    }

    /// Notes that a try shall stop. Returns the connection to cancel, if the try has one.
    mutating func stop(_ number: TryNumber) -> (any Connection)? {
        guard Int16(bitPattern: number &- stopped) >= 0 else { return nil }
        stopped = number
        guard number == self.number, case .connected(let connection) = phase else { return nil }
        return connection
    }

    /// Ends a try in its preparation, if it was asked to stop.
    mutating func endIfStopped(_ number: TryNumber) -> Bool {
        guard isPreparing(number), stopped == number else { return false }
        phase = .idle
        return true
    }

    /// Gives a try its connection. False if it was asked to stop, or is over: then the connection is not needed.
    mutating func connect(_ number: TryNumber, _ connection: any Connection) -> Bool {
        guard isPreparing(number), stopped != number else { return false }
        phase = .connected(connection)
        return true
    }

    /// The work of a try has brought what it can. False if the try is over already.
    mutating func conclude(_ number: TryNumber) -> Bool {
        guard isUnderWay(number) else { return false }
        phase = .concluding
        return true
    }

    /// A try has ended without an outcome. False if it is over already.
    mutating func end(_ number: TryNumber) -> Bool {
        guard isUnderWay(number) else { return false }
        phase = .idle
        return true
    }

    /// Whether a try has begun, and neither ended nor been brought to its conclusion.
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
