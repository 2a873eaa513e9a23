/// The state of one stage of a transfer: the holds on it and its progress. A value type without locks or I/O.
///
/// A stage has a source that it can pause, and a receiver. For `RequestChain`, the source is its exchange; for an
/// operation, it is the connection. Code that needs time adds its own hold to a set, and later removes only that hold.
/// Bytes flow while the set is empty. The end of the source waits for some of the holds; a stop waits for none.
///
/// `handle(_:)` is the only function that changes the state. It returns an action, which may be executed late, even
/// after later events have made it unnecessary. This is safe, because each action was correct when it was decided, and
/// the events that supersede it return their own actions.
package struct TransferState: Hashable, Sendable {
    package enum Event: Hashable, Sendable {
        case hold(TransferHolds)
        case lift(TransferHolds)
        /// The source has bytes that were refused, and is paused.
        case refused
        /// Bytes were taken from the source but could not be passed on. They are delivered before the end of the
        /// source.
        case kept
        /// The kept bytes have been passed on.
        case drained
        /// No bytes are available to send, so sending waits.
        case starved
        /// Bytes to send may be available again.
        case fed
        /// The source has ended.
        case end
        /// The transfer must stop immediately, despite all holds.
        case stop
    }

    package enum Action: Hashable, Sendable {
        case nothing
        /// Pass on the kept bytes, then report `drained`, unless a new hold was added.
        case drain
        /// Resume receiving, sending, or both. A direction that is false stays paused or is paused now. If kept bytes
        /// remain afterwards, report `kept` again.
        case run(receiving: Bool, sending: Bool)
        /// The transfer ends with the result of its source. This is the last action.
        case end
        /// The transfer ends before its source, or regardless of its result. This is the last action.
        case stopped
    }

    package private(set) var holds: TransferHolds = []
    /// Whether the source has bytes that were refused.
    package private(set) var hasRefused = false
    /// Whether bytes taken from the source have not been passed to the receiver yet.
    package private(set) var hasKept = false
    /// Whether the source waits for bytes to send.
    package private(set) var isStarved = false
    /// Whether the source has ended but its end has not been reported.
    package private(set) var isEnding = false
    /// Whether the end has been reported.
    package private(set) var isOver = false

    package init() {}

    /// The state for the next exchange. The delegate's hold and a pause are kept, because exchanges are transparent to
    /// them.
    package var next: TransferState {
        var next = TransferState()
        next.holds = holds.intersection([.delegate, .pause])
        return next
    }

    /// Whether bytes may flow.
    package var isFree: Bool { holds.isEmpty }

    /// Whether a pause holds up both directions.
    package var isPaused: Bool { holds.contains(.pause) }

    /// Whether this side is holding back bytes of the source or the receiver.
    package var isHeldBack: Bool { hasRefused || hasKept }

    package mutating func handle(_ event: Event) -> Action {
        switch event {
        // Count holds even after the end, because the delegate's hold also applies to the next exchange.
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
            // The reason for refusing the bytes may no longer apply.
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
            // Sending can resume even if receiving still has to wait.
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

    /// Returns the action to take after a hold was removed or the kept bytes were passed on.
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

/// The reasons for holding a transfer back.
package struct TransferHolds: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The sink is still processing earlier bytes.
    package static let sink = TransferHolds(rawValue: 1 << 0)
    /// The reader of a stream has enough bytes for now.
    package static let reader = TransferHolds(rawValue: 1 << 1)
    /// The delegate has suspended receiving.
    package static let delegate = TransferHolds(rawValue: 1 << 2)
    /// A decision about a redirect or a response is pending.
    package static let decision = TransferHolds(rawValue: 1 << 3)
    /// The decision about a response's cookies is pending.
    package static let cookies = TransferHolds(rawValue: 1 << 4)
    /// A rate limit allows no bytes now.
    package static let rate = TransferHolds(rawValue: 1 << 5)
    /// The operation is paused. This is the only hold that also applies to sending.
    package static let pause = TransferHolds(rawValue: 1 << 6)
    /// The transfer has used up its share of a run loop turn.
    package static let turn = TransferHolds(rawValue: 1 << 7)

    /// The holds that also delay the end of the source. The others delay only bytes, so they do not matter after the
    /// last one.
    package static let beforeEnd: TransferHolds = [.sink, .decision, .cookies]
}
