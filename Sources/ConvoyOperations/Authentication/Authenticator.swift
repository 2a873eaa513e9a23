import ConvoySecurity
import ConvoySupport
import Foundation

/// Sends a token with each request, and refreshes it when it expires or is rejected, once for all operations that need
/// it.
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
/// However many operations receive a 401, there is only one refresh. They wait for it without a slot of their queue,
/// and are sent again with the new token. An operation that was sent with an older token than the current one is sent
/// again immediately. If the refresh fails, all operations waiting for it fail with its error. Cancelling an operation
/// does not cancel the refresh. A 401 to a new token is the final response.
///
/// The token is sent only to the origin (scheme, host and port) of the operation's own request, not to other origins
/// after redirects; operations of a manager with a base URL receive it only for the origin of that URL. It replaces the
/// `Authorization` field of the request.
///
/// All members can be used from any thread.
public final class Authenticator: Sendable {
    /// Obtains a new token to replace the current one, which is nil at first. It runs in its own task.
    ///
    /// Operations created in it, or in tasks that it creates, are not authenticated, and bypass all limits and gates of
    /// a manager's queue, which may be full of operations waiting for the token. (This does not apply to detached
    /// tasks.)
    public typealias Refresh = @Sendable (_ present: AccessToken?) async throws -> AccessToken

    private struct State {
        var token: TokenState
        var waiters: [Int: Waiter] = [:]
        var nextWaiter = 0

        /// Takes the waiters, in the order of their arrival.
        mutating func takeWaiters() -> [Waiter] {
            defer { waiters = [:] }
            return waiters.sorted { $0.key < $1.key }.map(\.value)
        }
    }

    typealias Waiter = @Sendable (Result<Grant, any Error>) -> Void

    /// A token to send.
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
    ///   - token: The first token; nil to obtain one with the first request.
    ///   - leeway: The number of seconds before its expiry at which a token is refreshed; at most half of its lifetime.
    ///   - limit: The maximum number of refreshes in `window` that failed or followed a 401. Operations that would need
    ///     more fail with `AuthenticatorError.tooManyRefreshes`.
    ///   - window: The length of the window, in seconds.
    ///   - refresh: Obtains a new token.
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

    /// The current token. Setting it, for example after a login, resumes all waiting operations. Setting nil makes the
    /// next request obtain a new token, or wait for a running refresh; two refreshes never run concurrently. To revoke
    /// a user's access, give the manager another authenticator.
    public var token: AccessToken? {
        get { state.withLock { $0.token.token } }
        set {
            let (waiters, grant, old) = state.withLock { state -> ([Waiter], Grant?, TokenState) in
                let old = state.token
                state.token.set(newValue, at: Date())
                guard let newValue else { return ([], nil, old) }
                return (state.takeWaiters(), Grant(token: newValue, generation: state.token.generation), old)
            }
            // The earlier error may be a user's object.
            withExtendedLifetime(old) {}
            if let grant { for waiter in waiters { waiter(.success(grant)) } }
        }
    }

    // MARK: For operations

    /// Returns the token for a request. If the request has to wait, `waiter` is called after the refresh, on any
    /// thread, possibly before this returns.
    func next(_ waiter: @escaping Waiter) -> Step { take(waiter) { $0.next($1, Date()) } }

    /// Returns the step after a 401 to a token.
    func refused(_ grant: Grant, _ waiter: @escaping Waiter) -> Step {
        take(waiter) { $0.refused(grant.generation, $1) }
    }

    /// Returns the step after a 401 if the operation has already requested a refresh; nil if no refresh has happened
    /// since.
    func stepIfSuperseded(_ grant: Grant, _ waiter: @escaping Waiter) -> Step? {
        guard state.withLock({ $0.token.isNewer(than: grant.generation) }) else { return nil }
        return refused(grant, waiter)
    }

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
            end(number, result)
        }
    }

    private func end(_ number: Int, _ result: Result<AccessToken, any Error>) {
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

extension Authenticator: CustomReflectable {
    /// An empty mirror, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// A bearer token (RFC 6750). It is never printed.
public struct AccessToken: Sendable, Hashable {
    /// The value after `Bearer`: letters, digits and `-._~+/`, with `=` at the end.
    public var value: String
    /// The expiry date; nil if unknown. The token is refreshed before that.
    public var expires: Date?
    /// A token for obtaining the next one, for your own use.
    public var refreshToken: String?

    /// Creates a token with an expiry date.
    public init(_ value: String, expires: Date? = nil, refreshToken: String? = nil) {
        (self.value, self.expires, self.refreshToken) = (value, expires, refreshToken)
    }

    /// Creates a token that is valid for this many seconds from now: `expires_in` of RFC 6749, section 5.1.
    public init(_ value: String, expiresIn seconds: TimeInterval, refreshToken: String? = nil) {
        self.init(value, expires: Date(timeIntervalSinceNow: seconds), refreshToken: refreshToken)
    }
}

extension AccessToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// A description without the token.
    public var description: String { "AccessToken(***\(expires.map { ", expires: \($0)" } ?? ""))" }
    /// A description without the token.
    public var debugDescription: String { description }
    /// A mirror without the token.
    public var customMirror: Mirror { Mirror(self, children: ["expires": expires as Any]) }
}

/// The reason why an operation has no token.
public enum AuthenticatorError: Error, Sendable {
    /// The refresh failed for this reason. All operations that waited for it receive the same error.
    case refreshFailed(reason: any Error)
    /// The `Authenticator`'s limit of refreshes was reached. The reason is the last failure; nil if all refreshes
    /// succeeded but the server rejected the tokens.
    case tooManyRefreshes(reason: (any Error)?)
    /// The token contains characters that cannot be sent.
    case unusableToken
}

extension AuthenticatorError: SelfDescribingError {
    /// A description of the failure and its reason, with the URL that caused it.
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
