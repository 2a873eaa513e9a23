import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

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
        let refresh = Once<Void>()
        switch authenticator.next(waiter(attempt, refresh)) {
        case .use(let grant):
            declare(.authentication)
            core.withLock { $0.authenticationWork.token = grant }
            return true
        case .wait:
            // If `claimEnd` returns false, an earlier stop has ended the attempt.
            if claimEnd(of: attempt) { wait(for: refresh, after: attempt) }
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
        let refresh = Once<Void>()
        switch rejected.authenticator.refused(rejected.grant, waiter(attempt, refresh)) {
        case .use:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: false) }
            repeatNow(after: attempt)
        case .wait:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: true) }
            wait(for: refresh, after: attempt)
        case .fail(let error): store(.settled(error), of: attempt)
        }
    }

    /// Returns the closure that the authenticator calls when the refresh has ended.
    private func waiter(_ attempt: Attempt, _ refresh: Once<Void>) -> Authenticator.Waiter {
        { [weak self, weak attempt] result in
            if let self, let attempt, case .failure(let error) = result {
                core.withLock { _ in attempt.settlement = .failure(error) }
            }
            refresh.set(())
        }
    }

    /// Begins the next attempt when the refresh has ended and the operation has begun to wait.
    private func wait(for refresh: Once<Void>, after attempt: Attempt) {
        wait(for: .token, after: attempt) {
            refresh.whenSet { [weak self, number = attempt.number] in self?.handle(.retryDue(number)) }
        }
    }
}
