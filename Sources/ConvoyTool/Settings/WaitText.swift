import Convoy

/// What a transfer waits for, in words.
enum WaitText {
    /// Nil for what is not worth a word.
    static func text(_ reason: WaitReason) -> String? {
        switch reason {
        case .start, .slot: nil
        case .dependencies: "for what it depends on"
        case .barrier: "for a barrier of its queue"
        case .suspendedQueue: "for its queue to go on"
        case .hostLimit: "for others at the same host"
        case .startRate: "its turn (--wait)"
        case .closedGate: "until its host may be asked again"
        case .retry: "to try again"
        case .connectivity: "for a network"
        case .token: "for a token"
        case .challenge: "for a login"
        case .pause: "to be resumed"
        }
    }
}
