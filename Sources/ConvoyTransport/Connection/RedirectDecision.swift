import ConvoySupport
import Foundation
import FoundationNetworking

/// The answer to one question about a redirect, which may be given while the question is still being asked.
final class RedirectDecision: Sendable {
    enum State: Sendable {
        case asking
        case awaited
        case made(URLRequest?)
    }

    private let state = Locked(State.asking)

    /// True when the asker has gone on and must be told.
    func make(_ request: URLRequest?) -> Bool {
        state.withLock { state in
            switch state {
            case .asking:
                state = .made(request)
                return false
            case .awaited:
                state = .made(request)
                return true
            case .made: return false
            }
        }
    }

    /// What was answered, or a note that the answer is waited for.
    func awaitLater() -> State {
        state.withLock { state in
            if case .asking = state { state = .awaited }
            return state
        }
    }
}
