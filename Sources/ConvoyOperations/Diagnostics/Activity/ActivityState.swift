/// Decides when a program shows that it uses the network: not for what is over at once, and without flickering between two
/// requests. The rules are those of AFNetworking's `AFNetworkActivityIndicatorManager`.
///
/// A plain value: it says what is to be done, and is told when a delay is over.
struct ActivityState: Equatable {
    enum Phase: Equatable {
        /// Nothing is shown, and nothing is under way.
        case notActive
        /// Something has begun; it is shown if there still is something when the delay is over.
        case delayingStart
        /// It is shown.
        case active
        /// Nothing is under way any more; it is shown until the delay is over, in case something follows.
        case delayingEnd
    }

    enum Delay: Equatable { case activation, completion }

    enum Action: Equatable {
        case nothing
        /// Wait, and call ``delayDidPass(_:)`` with the number.
        case wait(Delay, number: UInt)
        case show
        case hide
    }

    private(set) var phase = Phase.notActive
    /// Whether something is under way.
    private(set) var isOccurring = false
    /// The number of the last delay. An earlier one that passes has no meaning any more.
    private var number: UInt = 0

    /// Whether the activity is shown.
    var isVisible: Bool { phase == .active || phase == .delayingEnd }

    /// Whether a delay is under way.
    var isDelaying: Bool { phase == .delayingStart || phase == .delayingEnd }

    /// Something has begun, or all has ended.
    mutating func setOccurring(_ isOccurring: Bool) -> Action {
        self.isOccurring = isOccurring
        switch (phase, isOccurring) {
        case (.notActive, true): return wait(.activation, in: .delayingStart)
        case (.active, false): return wait(.completion, in: .delayingEnd)
        case (.delayingEnd, true):
            phase = .active
            number &+= 1
            return .nothing
        // The delay goes on, whatever comes in it.
        case (.delayingStart, _), (.notActive, false), (.active, true), (.delayingEnd, false): return .nothing
        }
    }

    /// A delay is over.
    mutating func delayDidPass(_ number: UInt) -> Action {
        guard number == self.number else { return .nothing }
        switch phase {
        case .delayingStart:
            phase = isOccurring ? .active : .notActive
            return isOccurring ? .show : .nothing
        case .delayingEnd:
            phase = .notActive
            return .hide
        case .notActive, .active: return .nothing
        }
    }

    /// Nobody wants to know any more.
    mutating func reset() -> Action {
        defer { (phase, isOccurring, number) = (.notActive, false, number &+ 1) }
        return isVisible ? .hide : .nothing
    }

    private mutating func wait(_ delay: Delay, in phase: Phase) -> Action {
        self.phase = phase
        number &+= 1
        return .wait(delay, number: number)
    }
}
