import ConvoySupport
import Foundation
import FoundationNetworking

/// The delegate's answer about a redirect, which may come during the call that asks for it, or later.
final class RedirectDecision: Sendable {
    enum State: Sendable {
        case asking
        case awaited
        case made(URLRequest?)
    }

    private let state = Locked(State.asking)

    /// Stores the answer. True if the asking call has returned, so that the connection must be told.
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

    /// Returns the answer, or notes that it will come later.
    func awaitLater() -> State {
        state.withLock { state in
            if case .asking = state { state = .awaited }
            return state
        }
    }
}
