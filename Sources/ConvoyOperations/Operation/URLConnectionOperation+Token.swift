import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The token of an `Authenticator`: waiting for it, sending it, and what a 401 to it means.
extension URLConnectionOperation {
    /// Gets the token for a try that begins. False if the try has ended: it waits for the refresh, or fails.
    func obtainToken(for number: Lifecycle.TryNumber) -> Bool {
        guard let authenticator = core.withLock({ $0.authenticator }) else { return true }
        let rendezvous = Rendezvous()
        switch authenticator.next(waiter(number, rendezvous)) {
        case .use(let grant):
            core.withLock { $0.authenticationWork.token = grant }
            return true
        case .wait:
            // A stop that came first has ended the try.
            guard core.withLock({ $0.workSlot.conclude(number) }) else { return false }
            proceed(to: .whenAnswered(for: .token) { [self] in meet(rendezvous, number) }, after: number)
            return false
        case .fail(let error):
            conclude(number, settledBy: error)
            return false
        }
    }

    /// The request with the token.
    func authorized(_ request: TransferRequest, with token: AccessToken) throws -> TransferRequest {
        guard let value = BearerAuthorization.value(token: token.value) else { throw AuthenticatorError.unusableToken }
        return try request.with(authorization: value)
    }

    /// What a response to a token means for the try: nil if it is the response.
    func retryForToken(_ head: ResponseHead, _ number: Lifecycle.TryNumber) -> NextTry? {
        guard head.statusCode == 401,
            let (authenticator, grant, hasAsked) = core.withLock({ $0.refusedToken(by: head) })
        else { return nil }
        let rendezvous = Rendezvous()
        let waiter = waiter(number, rendezvous)
        let step: Authenticator.Step? =
            hasAsked ? authenticator.stepIfSuperseded(grant, waiter) : authenticator.refused(grant, waiter)
        switch step {
        case .use:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: false) }
            return .atOnce
        case .wait:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: true) }
            return .whenAnswered(for: .token) { [self] in meet(rendezvous, number) }
        case .fail(let error):
            core.withLock { $0.authentication?.settle(.failure(error), after: number) }
            return .atOnce
        case nil: return nil
        }
    }

    /// Called when the refresh has ended.
    private func waiter(_ number: Lifecycle.TryNumber, _ rendezvous: Rendezvous) -> Authenticator.Waiter {
        { [weak self] result in
            guard let self else { return }
            if case .failure(let error) = result {
                self.core.withLock { $0.authenticationWork.settle(.failure(error), after: number) }
            }
            self.meet(rendezvous, number)
        }
    }

    /// The refresh has ended, or the operation has begun to wait for it. It goes on when both have happened.
    private func meet(_ rendezvous: Rendezvous, _ number: Lifecycle.TryNumber) {
        if rendezvous.arrive() { handle(.retryDue(number)) }
    }
}

extension OperationCore {
    /// The token that a 401 is about, who can get another, and whether this operation has asked for that before; nil where
    /// it is about none.
    fileprivate func refusedToken(by head: ResponseHead) -> (Authenticator, Authenticator.Grant, hasAsked: Bool)? {
        guard let authenticator, let authentication, let grant = authentication.token, authentication.mayRetryForToken else {
            return nil
        }
        // A redirect to another origin has taken it away, and the way back does not return it. Of a transfer that is shared
        // with others only the place is known.
        let isAtHome = redirects.isEmpty || Target.isSame(request.url, head.url)
        let wasSent = (transfer?.redirection?.request).map(authentication.bearsToken) ?? isAtHome
        return wasSent ? (authenticator, grant, authentication.hasAskedForRefresh) : nil
    }
}
