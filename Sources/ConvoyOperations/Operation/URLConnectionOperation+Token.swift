import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// The token of an `Authenticator`: waiting for it, sending it, and what a 401 to it means.
extension URLConnectionOperation {
    /// Gets the token for an attempt that begins. False if the attempt has ended: the next one waits for the refresh, or the
    /// operation fails.
    func obtainToken(for attempt: Attempt) -> Bool {
        guard let authenticator = core.withLock({ $0.authenticator }) else { return true }
        let meeting = Meeting()
        switch authenticator.next(waiter(attempt, meeting)) {
        case .use(let grant):
            core.withLock { $0.authenticationWork.token = grant }
            return true
        case .wait:
            // A stop that came first has ended the attempt.
            guard didEnd(attempt) else { return false }
            proceed(to: .whenAnswered(for: .token) { [self] in meet(meeting, attempt) }, after: attempt)
            return false
        case .fail(let error):
            end(attempt, with: .settled(error))
            return false
        }
    }

    /// The request with the token.
    func authorized(_ request: TransferRequest, with token: AccessToken) throws -> TransferRequest {
        guard let value = BearerAuthorization.value(token: token.value) else { throw AuthenticatorError.unusableToken }
        return try request.with(authorization: value)
    }

    /// What a response to a token means for the attempt: nil if it is the response.
    func retryForToken(_ head: ResponseHead, _ attempt: Attempt) -> NextAttempt? {
        guard head.statusCode == 401,
            let (authenticator, grant, hasAsked) = core.withLock({ $0.refusedToken(by: head, attempt) })
        else { return nil }
        let meeting = Meeting()
        let waiter = waiter(attempt, meeting)
        let step: Authenticator.Step? =
            hasAsked ? authenticator.stepIfSuperseded(grant, waiter) : authenticator.refused(grant, waiter)
        switch step {
        case .use:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: false) }
            return .atOnce
        case .wait:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: true) }
            return .whenAnswered(for: .token) { [self] in meet(meeting, attempt) }
        case .fail(let error):
            core.withLock { _ in attempt.settlement = .failure(error) }
            return .atOnce
        case nil: return nil
        }
    }

    /// Called when the refresh has ended.
    private func waiter(_ attempt: Attempt, _ meeting: Meeting) -> Authenticator.Waiter {
        { [weak self, weak attempt] result in
            guard let self, let attempt else { return }
            if case .failure(let error) = result { core.withLock { _ in attempt.settlement = .failure(error) } }
            meet(meeting, attempt)
        }
    }

    /// The refresh has ended, or the operation has begun to wait for it. It goes on when both have happened.
    private func meet(_ meeting: Meeting, _ attempt: Attempt) {
        if meeting.arrive() { handle(.retryDue(attempt.number)) }
    }
}

/// Two events that must both have come before something happens, in any order.
private final class Meeting: Sendable {
    private let hasOneCome = Atomic<Bool>(false)

    /// True for the one that comes last.
    func arrive() -> Bool { hasOneCome.exchange(true, ordering: .acquiringAndReleasing) }
}

extension OperationCore {
    /// The token that a 401 is about, who can get another, and whether this operation has asked for that before; nil where
    /// it is about none.
    fileprivate func refusedToken(
        by head: ResponseHead, _ attempt: Attempt
    ) -> (Authenticator, Authenticator.Grant, hasAsked: Bool)? {
        guard let authenticator, let authentication, let grant = authentication.token, authentication.mayRetryForToken else {
            return nil
        }
        // A redirect to another origin has taken it away, and the way back does not return it. Of a transfer that is shared
        // with others only the place is known.
        let isAtHome = redirects.isEmpty || Target.isSame(request.url, head.url)
        let wasSent = (attempt.redirection?.request).map(authentication.bearsToken) ?? isAtHome
        return wasSent ? (authenticator, grant, authentication.hasAskedForRefresh) : nil
    }
}
