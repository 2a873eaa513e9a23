import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation

/// Methods that obtain the token of an `Authenticator`, add it to requests, and replace it after a 401.
extension URLConnectionOperation {
    /// Obtains the token of a starting attempt, then connects. The attempt ends instead if the next attempt waits for a
    /// refresh, or if the operation fails.
    func obtainToken(of authenticator: Authenticator, for attempt: Attempt) {
        let refresh = PendingRefresh()
        switch authenticator.next({ refresh.set($0) }) {
        case .use(let grant):
            declare(.authentication)
            connect(attempt, with: grant)
        case .wait:
            // If `claimEnd` returns nil, an earlier stop has ended the attempt.
            if claimEnd(of: attempt) != nil { wait(for: refresh, after: attempt) }
        case .fail(let error): decide(.settled(error), after: attempt)
        }
    }

    /// The result of a refresh that the next attempt waits for.
    private typealias PendingRefresh = Once<Result<Authenticator.Grant, any Error>>

    /// Returns a copy of the request with the token in its `Authorization` field.
    func authorized(_ request: TransferRequest, with token: AccessToken) throws -> TransferRequest {
        guard let value = BearerAuthorization.value(token: token.value) else { throw AuthenticatorError.unusableToken }
        return try request.with(authorization: value)
    }

    /// Returns the token that a response rejects; nil if it rejects none, or none that can be replaced.
    func rejectedToken(by head: ResponseHead, _ attempt: Attempt) -> RejectedToken? {
        guard head.statusCode == 401,
            let (token, hasAsked) = core.withLock({ $0.refusedToken(of: attempt) }),
            !hasAsked || token.authenticator.isSuperseded(token.grant)
        else { return nil }
        return token
    }

    /// Obtains a newer token, then begins the next attempt.
    func replace(_ rejected: RejectedToken, after attempt: Attempt) {
        let refresh = PendingRefresh()
        let step = rejected.authenticator.refused(rejected.grant) { refresh.set($0) }
        if case .fail(let error) = step { return store(.settled(error), of: attempt) }
        let isRefreshed = if case .wait = step { true } else { false }
        core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: isRefreshed) }
        if isRefreshed { wait(for: refresh, after: attempt) } else { repeatNow(after: attempt) }
    }

    /// Begins the next attempt when the refresh has ended and the operation has begun to wait.
    private func wait(for refresh: PendingRefresh, after attempt: Attempt) {
        wait(for: .token, after: attempt) {
            // A refresh may take long, and must not keep the attempt of a cancelled operation.
            refresh.whenSet { [weak self, weak attempt] result in
                guard let self, let attempt else { return }
                let preset: Attempt.PresetOutcome? = if case .failure(let error) = result { .failure(error) } else { nil }
                repeatLater(attempt, with: preset)
            }
        }
    }
}
