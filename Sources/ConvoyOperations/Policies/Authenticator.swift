import ConvoySecurity
import ConvoySupport
import Foundation

/// An authenticator that adds a token to each request. When the token expires or is rejected, it is refreshed once for
/// all operations that need it.
///
/// ```swift
/// let authenticator = Authenticator { [weak api] old in
///     guard let api else { throw CancellationError() }
///     let answer: Grant = try await api.post("token", parameters: ["refresh_token": old?.refreshToken])
///     return AccessToken(answer.token, expiresIn: answer.seconds, refreshToken: answer.refreshToken)
/// }
/// api.authenticator = authenticator
/// ```
///
/// (The manager retains the authenticator, which retains its closure, so the closure must not retain the manager.)
///
/// However many operations receive a 401, the token is refreshed only once. In the meantime, these operations release
/// their slots in the queue. They are sent again with the new token. An operation that was sent with an older token
/// than the current one is sent again immediately. If the refresh fails, all operations waiting for the token fail with
/// the same error. Cancelling an operation does not cancel the refresh. A 401 response to a new token is the final
/// response.
///
/// The token is sent only to the origin (scheme, host and port) of the operation's own request, not to other origins
/// after redirects; operations of a manager with a base URL receive it only for the origin of that URL. The token
/// replaces the `Authorization` field of the request.
///
/// All members can be used from any thread.
public final class Authenticator: Sendable {
    /// A closure that obtains a new token to replace `present`, the current token, which may be nil. It runs in its own
    /// task.
    ///
    /// Operations created in the closure, or in tasks that it creates, are not authenticated. They bypass all limits
    /// and gates of a manager's queue, which may be full of operations waiting for the token. (This does not apply to
    /// detached tasks.)
    public typealias Refresh = @Sendable (_ present: AccessToken?) async throws -> AccessToken

    private struct State {
        var token: TokenState
        var waiters: [Int: Waiter] = [:]
        var nextWaiter = 0

        /// Removes the waiters, and returns them in the order in which they were added.
        mutating func takeWaiters() -> [Waiter] {
            defer { waiters = [:] }
            return waiters.sorted { $0.key < $1.key }.map(\.value)
        }
    }

    typealias Waiter = @Sendable (Result<Grant, any Error>) -> Void

    /// A token that an operation may send, and its generation.
    struct Grant: Sendable {
        let token: AccessToken
        let generation: Int
    }

    /// The next step of an operation.
    enum Step {
        case use(Grant)
        /// Wait for the refresh.
        case wait
        case fail(any Error)
    }

    private let state: Locked<State>
    private let refresh: Refresh

    /// Whether the current task refreshes a token.
    @TaskLocal static var isRefreshing = false

    /// - Parameters:
    ///   - token: The first token; nil to obtain a token for the first request.
    ///   - leeway: The time before its expiry at which a token is refreshed, in seconds; at most half of its lifetime
    ///     is used.
    ///   - limit: The maximum number of refreshes in `window` that failed or followed a 401. Operations that would
    ///     exceed the limit fail with `AuthenticatorError.tooManyRefreshes`.
    ///   - window: The length of the time window for `limit`, in seconds.
    ///   - refresh: The closure that obtains a new token.
    public init(
        token: AccessToken? = nil, leeway: TimeInterval = 30, limit: Int = 5, window: TimeInterval = 30,
        refresh: @escaping Refresh
    ) {
        var state = TokenState(token, at: Date(), leeway: leeway)
        state.limit = limit
        state.window = window
        self.state = Locked(State(token: state))
        self.refresh = refresh
    }

    /// The current token. Setting it, for example after a login, resumes all waiting operations. After setting nil, the
    /// next request obtains a new token, or waits for a running refresh; two refreshes never run concurrently. To
    /// revoke a user's access, give the manager a different authenticator.
    public var token: AccessToken? {
        get { state.withLock { $0.token.token } }
        set {
            let (waiters, grant, old) = state.withLock { state -> ([Waiter], Grant?, TokenState) in
                let old = state.token
                state.token.set(newValue, at: Date())
                guard let newValue else { return ([], nil, old) }
                return (state.takeWaiters(), Grant(token: newValue, generation: state.token.generation), old)
            }
            // The old state may hold the last reference to a user's error, so it is released outside the lock.
            withExtendedLifetime(old) {}
            if let grant { for waiter in waiters { waiter(.success(grant)) } }
        }
    }

    // MARK: For operations

    /// Returns the next step for a request, which includes the token if available. If the request has to wait, `waiter`
    /// is called after the refresh, on any thread, possibly before this method returns.
    func next(_ waiter: @escaping Waiter) -> Step { take(waiter) { $0.next($1, Date()) } }

    /// Returns the next step after a 401 response to a token.
    func refused(_ grant: Grant, _ waiter: @escaping Waiter) -> Step {
        take(waiter) { $0.refused(grant.generation, $1) }
    }

    /// Returns whether a newer token than the given one exists, or a running refresh will provide one.
    func isSuperseded(_ grant: Grant) -> Bool { state.withLock { $0.token.isNewer(than: grant.generation) } }

    private func take(_ waiter: @escaping Waiter, _ event: (inout TokenState, TimeInterval) -> TokenState.Step) -> Step {
        let now = Double(MonotonicClock().now) / 1e9
        let step = state.withLock { state in
            let step = event(&state.token, now)
            if case .wait = step {
                state.waiters[state.nextWaiter] = waiter
                state.nextWaiter += 1
            }
            return step
        }
        switch step {
        case .use(let token, let generation): return .use(Grant(token: token, generation: generation))
        case .fail(let error): return .fail(error)
        case .wait(let number):
            if let number { begin(number) }
            return .wait
        }
    }

    // MARK: The refresh

    private func begin(_ number: Int) {
        let present = state.withLock { $0.token.token }
        Task { [self] in
            let result: Result<AccessToken, any Error>
            do {
                let token = try await Self.$isRefreshing.withValue(true) { try await refresh(present) }
                let isUsable = BearerAuthorization.value(token: token.value) != nil
                result = isUsable ? .success(token) : .failure(AuthenticatorError.unusableToken)
            } catch {
                result = .failure(AuthenticatorError.refreshFailed(reason: error))
            }
            didRefresh(number, result)
        }
    }

    private func didRefresh(_ number: Int, _ result: Result<AccessToken, any Error>) {
        let (waiters, generation, old) = state.withLock { state -> ([Waiter], Int, TokenState) in
            let old = state.token
            let counts = state.token.end(number, result, at: Date())
            return (counts ? state.takeWaiters() : [], state.token.generation, old)
        }
        withExtendedLifetime(old) {}
        let outcome = result.map { Grant(token: $0, generation: generation) }
        for waiter in waiters { waiter(outcome) }
    }
}

extension Authenticator: OpaqueReflectable {}

/// A bearer token (RFC 6750). It is never printed.
public struct AccessToken: Sendable, Hashable {
    /// The value after `Bearer`: letters, digits and `-._~+/`, with `=` at the end.
    public var value: String
    /// The expiry date; nil if unknown. The token is refreshed before this date. A token that has already expired when
    /// it is set is used until a server rejects it, because clocks differ.
    public var expires: Date?
    /// A token for obtaining the next access token, for use by your `Refresh` closure.
    public var refreshToken: String?

    /// Creates a token with an expiry date.
    public init(_ value: String, expires: Date? = nil, refreshToken: String? = nil) {
        self.value = value
        self.expires = expires
        self.refreshToken = refreshToken
    }

    /// Creates a token that is valid for the given number of seconds from now (`expires_in` of RFC 6749, section 5.1).
    public init(_ value: String, expiresIn seconds: TimeInterval, refreshToken: String? = nil) {
        self.init(value, expires: Date(timeIntervalSinceNow: seconds), refreshToken: refreshToken)
    }
}

extension AccessToken: CustomStringConvertible, OpaqueReflectable {
    /// A description without the token.
    public var description: String { "AccessToken(***\(expires.map { ", expires: \($0)" } ?? ""))" }
    package var shownChildren: KeyValuePairs<String, Any> { ["expires": expires as Any] }
}

/// The reason why an operation has no token.
public enum AuthenticatorError: Error, Sendable {
    /// The refresh failed with the associated error. All operations that waited for the refresh receive the same error.
    case refreshFailed(reason: any Error)
    /// The `Authenticator`'s limit of refreshes was reached. The associated error is the last failure; nil if all
    /// refreshes succeeded but the server rejected the tokens.
    case tooManyRefreshes(reason: (any Error)?)
    /// The token contains characters that cannot be sent.
    case unusableToken
}

extension AuthenticatorError: SelfDescribingError {
    /// A description of the failure and its reason, with the URL of the failed request if known.
    public var description: String {
        switch self {
        case .refreshFailed(let reason): "The token could not be refreshed: \(ErrorDescription.reason(reason))"
        case .tooManyRefreshes(let reason):
            "The token was refreshed too often."
                + (reason.map { " The last refresh failed: \(ErrorDescription.reason($0))" }
                    ?? " The server rejects every new token.")
        case .unusableToken: "The token contains characters that cannot be sent (RFC 6750, section 2.1)."
        }
    }
}
