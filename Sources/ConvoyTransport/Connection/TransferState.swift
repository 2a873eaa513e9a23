/// What holds up a transfer at one stage of its way, and what is to be done when that changes: a value, without locks
/// and without I/O.
///
/// A stage has a source that it can let wait, and a receiver. For `URLConnection` the source is libcurl, for an
/// operation it is the connection. Whoever needs time puts a hold of its own into the set, and lifts that one only.
/// Bytes flow while the set is empty. The end of the source waits for the holds that have a say in it. A stop waits for
/// nothing.
///
/// `handle(_:)` is the only function that changes it, and returns what is to be done. It may be done late: by then
/// other events may have made it unnecessary, so each action says what was right when it was decided, and the events that
/// undo it bring an action of their own.
package struct TransferState: Hashable, Sendable {
    package enum Event: Hashable, Sendable {
        case hold(TransferHolds)
        case lift(TransferHolds)
        /// The source has bytes that were not taken, and waits until it is told to go on.
        case refused
        /// Bytes were taken from the source and could not be passed on. They are behind the source, before its end.
        case kept
        /// What was kept has been passed on.
        case drained
        /// There is nothing to send, and the source waits until there is.
        case starved
        /// There may be something to send again.
        case fed
        /// The source has ended.
        case end
        /// The transfer ends now, whatever holds it up.
        case stop
    }

    package enum Action: Hashable, Sendable {
        case nothing
        /// Pass on what was kept; then say `drained`, unless another hold has come.
        case drain
        /// Let the source go on with receiving, with sending, or with both. What is false keeps waiting.
        case run(receiving: Bool, sending: Bool)
        /// The transfer is over, and ends as its source did. The last action.
        case end
        /// The transfer is over before its source has ended, or in spite of how it did. The last action.
        case stopped
    }

    package private(set) var holds: TransferHolds = []
    /// Whether the source waits with bytes.
    package private(set) var hasRefused = false
    /// Whether there are bytes between the source and the receiver.
    package private(set) var hasKept = false
    /// Whether the source waits for something to send.
    package private(set) var isStarved = false
    /// Whether the source has ended, which could not be told yet.
    package private(set) var isEnding = false
    /// Whether the end was told.
    package private(set) var isOver = false

    package init() {}

    /// That of the next exchange: the delegate does not know where one ends and the next one begins, so its hold stays.
    package var next: TransferState {
        var next = TransferState()
        next.holds = holds.intersection(.delegate)
        return next
    }

    /// Whether bytes may flow.
    package var isFree: Bool { holds.isEmpty }

    /// Whether this side keeps the source waiting, or bytes from the receiver.
    package var isHeldBack: Bool { hasRefused || hasKept }

    package mutating func handle(_ event: Event) -> Action {
        switch event {
        // Holds are counted to the end and beyond: that of the delegate is one of the next exchange.
        case .hold(let holds):
            self.holds.formUnion(holds)
            return .nothing
        case .lift(let lifted):
            guard !holds.isDisjoint(with: lifted) else { return .nothing }
            holds.subtract(lifted)
            return isOver ? .nothing : goOn()
        case _ where isOver: return .nothing
        case .refused:
            hasRefused = true
            // What held it up may be over by now.
            return goOn()
        case .kept:
            hasKept = true
            return goOn()
        case .drained:
            guard hasKept else { return .nothing }
            hasKept = false
            return goOn()
        case .starved:
            isStarved = true
            return .nothing
        case .fed:
            guard isStarved else { return .nothing }
            isStarved = false
            // What is to be received may have to wait on; what is to be sent need not.
            return isEnding ? .nothing : run(receiving: isFree && !hasKept)
        case .end:
            isEnding = true
            return mayEnd ? end() : .nothing
        case .stop:
            isOver = true
            return .stopped
        }
    }

    private var mayEnd: Bool { holds.isDisjoint(with: .beforeEnd) && !hasKept }

    /// What is to be done after a hold was lifted, or what was kept is gone.
    private mutating func goOn() -> Action {
        if hasKept { return isFree ? .drain : .nothing }
        if isEnding { return mayEnd ? end() : .nothing }
        return isFree && hasRefused ? run(receiving: true) : .nothing
    }

    private mutating func run(receiving: Bool) -> Action {
        if receiving { hasRefused = false }
        return .run(receiving: receiving || !hasRefused, sending: !isStarved)
    }

    private mutating func end() -> Action {
        isOver = true
        return .end
    }
}

/// Who needs time on the way of a transfer, each under its own name.
package struct TransferHolds: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The sink is busy with bytes that it was given.
    package static let sink = TransferHolds(rawValue: 1 << 0)
    /// The reader of a stream has enough for now.
    package static let reader = TransferHolds(rawValue: 1 << 1)
    /// The delegate has enough for now.
    package static let delegate = TransferHolds(rawValue: 1 << 2)
    /// A decision is awaited: about a redirect, or about a response.
    package static let decision = TransferHolds(rawValue: 1 << 3)
    /// The cookies of a response are being accepted.
    package static let cookies = TransferHolds(rawValue: 1 << 4)
    /// A rate limit has no room.
    package static let rate = TransferHolds(rawValue: 1 << 5)

    /// The holds for which the end of the source waits. The others only slow bytes down, and after the last byte there
    /// are none.
    package static let beforeEnd: TransferHolds = [.sink, .decision, .cookies]
}
