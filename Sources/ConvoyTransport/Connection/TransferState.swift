/// The state of one stage of a transfer: what holds it up, and what to do when that changes. A value, without locks or
/// I/O.
///
/// A stage has a source that it can pause, and a receiver. For `URLConnection` the source is libcurl; for an operation
/// it is the connection. Code that needs time adds its own hold to a set, and removes only that one. Bytes flow while
/// the set is empty. The end of the source waits for some of the holds; a stop waits for none.
///
/// `handle(_:)` is the only function that changes the state, and returns what to do. That may be done late, when other
/// events have made it unnecessary: each action states what was right when it was decided, and the events that undo it
/// return an action of their own.
package struct TransferState: Hashable, Sendable {
    package enum Event: Hashable, Sendable {
        case hold(TransferHolds)
        case lift(TransferHolds)
        /// The source has bytes that were refused, and is paused.
        case refused
        /// Bytes were taken from the source and could not be passed on. They precede the end of the source.
        case kept
        /// The kept bytes have been passed on.
        case drained
        /// There is nothing to send, so the source waits.
        case starved
        /// There may be bytes to send again.
        case fed
        /// The source has ended.
        case end
        /// The transfer must end now, despite all holds.
        case stop
    }

    package enum Action: Hashable, Sendable {
        case nothing
        /// Pass on the kept bytes; then report `drained`, unless there is another hold.
        case drain
        /// Resume receiving, sending, or both. A direction that is false stays paused, or is paused now. If there are
        /// kept bytes, report `kept` again afterwards.
        case run(receiving: Bool, sending: Bool)
        /// The transfer ends as its source did. The last action.
        case end
        /// The transfer ends before its source, or despite how the source ended. The last action.
        case stopped
    }

    package private(set) var holds: TransferHolds = []
    /// Whether the source has bytes that were refused.
    package private(set) var hasRefused = false
    /// Whether there are kept bytes between the source and the receiver.
    package private(set) var hasKept = false
    /// Whether the source waits for bytes to send.
    package private(set) var isStarved = false
    /// Whether the source has ended, which is not reported yet.
    package private(set) var isEnding = false
    /// Whether the end was reported.
    package private(set) var isOver = false

    package init() {}

    /// The state for the next exchange: the delegate's hold and a pause stay, as exchanges are invisible to them.
    package var next: TransferState {
        var next = TransferState()
        next.holds = holds.intersection([.delegate, .pause])
        return next
    }

    /// Whether bytes may flow.
    package var isFree: Bool { holds.isEmpty }

    /// Whether a pause holds up both directions.
    package var isPaused: Bool { holds.contains(.pause) }

    /// Whether this side holds up bytes of the source or the receiver.
    package var isHeldBack: Bool { hasRefused || hasKept }

    package mutating func handle(_ event: Event) -> Action {
        switch event {
        // Holds are counted even after the end: the delegate's hold also applies to the next exchange.
        case .hold(let holds):
            let stopsSending = holds.contains(.pause) && !isPaused
            self.holds.formUnion(holds)
            guard stopsSending, !isEnding, !isOver else { return .nothing }
            hasRefused = true
            return run(receiving: false)
        case .lift(let lifted):
            guard !holds.isDisjoint(with: lifted) else { return .nothing }
            let resumesSending = lifted.contains(.pause) && isPaused
            holds.subtract(lifted)
            guard !isOver else { return .nothing }
            return resumesSending && !isEnding ? run(receiving: isFree && !hasKept) : goOn()
        case _ where isOver: return .nothing
        case .refused:
            hasRefused = true
            // The reason for the wait may be gone by now.
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
            // Receiving may have to wait longer, sending need not.
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

    /// What to do after a hold was removed, or the kept bytes were passed on.
    private mutating func goOn() -> Action {
        if hasKept { return isFree ? .drain : .nothing }
        if isEnding { return mayEnd ? end() : .nothing }
        return isFree && hasRefused ? run(receiving: true) : .nothing
    }

    private mutating func run(receiving: Bool) -> Action {
        if receiving { hasRefused = false }
        return .run(receiving: receiving || !hasRefused, sending: !isStarved && !isPaused)
    }

    private mutating func end() -> Action {
        isOver = true
        return .end
    }
}

/// The reasons for which a transfer can be held up.
package struct TransferHolds: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The sink is busy with earlier bytes.
    package static let sink = TransferHolds(rawValue: 1 << 0)
    /// The reader of a stream has enough bytes for now.
    package static let reader = TransferHolds(rawValue: 1 << 1)
    /// The delegate wants no bytes for now.
    package static let delegate = TransferHolds(rawValue: 1 << 2)
    /// A decision about a redirect or a response is pending.
    package static let decision = TransferHolds(rawValue: 1 << 3)
    /// The decision about a response's cookies is pending.
    package static let cookies = TransferHolds(rawValue: 1 << 4)
    /// A rate limit allows no bytes now.
    package static let rate = TransferHolds(rawValue: 1 << 5)
    /// The operation is paused. The only hold that also delays sending.
    package static let pause = TransferHolds(rawValue: 1 << 6)
    /// The transfer has used its share of a turn of the run loop.
    package static let turn = TransferHolds(rawValue: 1 << 7)

    /// The holds that delay the end of the source. The others only delay bytes, of which none are left after the last
    /// one.
    package static let beforeEnd: TransferHolds = [.sink, .decision, .cookies]
}
