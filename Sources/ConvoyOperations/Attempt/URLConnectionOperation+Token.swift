import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// A token that a server has rejected with a 401.
struct RejectedToken {
    let authenticator: Authenticator
    let grant: Authenticator.Grant
}

/// Methods that obtain the token of an `Authenticator`, add it to requests, and replace it after a 401.
extension URLConnectionOperation {
    /// Obtains the token for a starting attempt. Returns false if the attempt has ended, because the next attempt waits
    /// for the refresh or because the operation fails.
    func obtainToken(for attempt: Attempt) -> Bool {
        guard let authenticator = core.withLock({ $0.authenticator }) else { return true }
        let latch = TwoPartyLatch()
        switch authenticator.next(waiter(attempt, latch)) {
        case .use(let grant):
            declare(.authentication)
            core.withLock { $0.authenticationWork.token = grant }
            return true
        case .wait:
            // If `claimEnd` returns false, an earlier stop has ended the attempt.
            if claimEnd(of: attempt) { wait(for: .token, after: attempt) { meet(latch, attempt) } }
            return false
        case .fail(let error):
            decide(.settled(error), after: attempt)
            return false
        }
    }

    /// Returns a copy of the request with the token in its `Authorization` field.
    func authorized(_ request: TransferRequest, with token: AccessToken) throws -> TransferRequest {
        guard let value = BearerAuthorization.value(token: token.value) else { throw AuthenticatorError.unusableToken }
        return try request.with(authorization: value)
    }

    /// Returns the token that a response rejects; nil if it rejects none, or none that can be replaced.
    func rejectedToken(by head: ResponseHead, _ attempt: Attempt) -> RejectedToken? {
        guard head.statusCode == 401,
            let (authenticator, grant, hasAsked) = core.withLock({ $0.refusedToken(of: attempt) }),
            !hasAsked || authenticator.isSuperseded(grant)
        else { return nil }
        return RejectedToken(authenticator: authenticator, grant: grant)
    }

    /// Obtains a newer token, then begins the next attempt.
    func replace(_ rejected: RejectedToken, after attempt: Attempt) {
        let latch = TwoPartyLatch()
        let step = rejected.authenticator.refused(rejected.grant, waiter(attempt, latch))
        switch step {
        case .use:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: false) }
            repeatNow(after: attempt)
        case .wait:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: true) }
            wait(for: .token, after: attempt) { meet(latch, attempt) }
        case .fail(let error): store(.settled(error), of: attempt)
        }
    }

    /// Returns the closure that the authenticator calls when the refresh has ended.
    private func waiter(_ attempt: Attempt, _ latch: TwoPartyLatch) -> Authenticator.Waiter {
        { [weak self, weak attempt] result in
            guard let self, let attempt else { return }
            if case .failure(let error) = result { core.withLock { _ in attempt.settlement = .failure(error) } }
            meet(latch, attempt)
        }
    }

    /// Records one of two events: the refresh has ended, or the operation has begun to wait. After both, the next
    /// attempt begins.
    private func meet(_ latch: TwoPartyLatch, _ attempt: Attempt) {
        if latch.arrive() { handle(.retryDue(attempt.number)) }
    }
}

/// A latch that opens after two events, which may occur in any order.
private final class TwoPartyLatch: Sendable {
    private let hasOneCome = Atomic<Bool>(false)

    /// Records one of the two events. Returns true if the other one has already been recorded.
    func arrive() -> Bool { hasOneCome.exchange(true, ordering: .acquiringAndReleasing) }
}
