import Foundation

/// The state of an `Authenticator`: a value without locks, clocks or I/O.
struct TokenState: Sendable {
    /// The time of a monotonic clock, in seconds.
    typealias Time = TimeInterval

    private(set) var token: AccessToken?
    /// The number of times that the token was set. A request sent with a token of an earlier generation is sent again.
    private(set) var generation = 0
    /// The date at which the token is due for a refresh, shortly before its expiry.
    private var isDue: Date?
    /// The number of the running refresh; nil if none is running.
    private(set) var refresh: Int?
    private var refreshes = 0
    /// The start times of the last refreshes that count against the limit.
    private var recent: [Time] = []
    /// Whether the last refresh was started because the token was missing or due, rather than because it was rejected.
    private var isExpected = false
    private var lastFailure: (any Error)?

    /// The maximum number of refreshes in `window`.
    var limit = 5
    /// The length of the time window for `limit`, in seconds.
    var window: Time = 30
    /// The time before its expiry at which a token is refreshed, in seconds.
    var leeway: TimeInterval = 30

    enum Step {
        /// Send the given token.
        case use(AccessToken, generation: Int)
        /// Wait for the refresh. If `begins` is not nil, begin a refresh with that number.
        case wait(begins: Int?)
        case fail(AuthenticatorError)
    }

    init(_ token: AccessToken?, at date: Date, leeway: TimeInterval) {
        self.leeway = leeway
        set(token, at: date)
    }

    /// Sets a token that was not obtained by a refresh. If the token is not nil, the result of a running refresh is
    /// ignored, because this token is newer. If it is nil, the running refresh provides the next token, because a
    /// second refresh would present the same refresh token again.
    mutating func set(_ token: AccessToken?, at date: Date) {
        self.token = token
        generation += 1
        if token != nil { refresh = nil }
        lastFailure = nil
        if token != nil { recent = [] }
        isDue = token?.expires.map { end in
            // Use at most half of the lifetime as leeway. Otherwise a token with a lifetime shorter than the leeway
            // would always be due.
            let life = end.timeIntervalSince(date)
            return life > 0 ? end.addingTimeInterval(-min(max(0, leeway), life / 2)) : .distantFuture
        }
    }

    /// Returns the next step for a request that is about to be sent.
    mutating func next(_ now: Time, _ date: Date) -> Step {
        if refresh != nil { return .wait(begins: nil) }
        if let token, isDue.map({ date < $0 }) ?? true { return .use(token, generation: generation) }
        return begin(now, isExpected: true)
    }

    /// Returns the next step for a request whose token, of the given generation, was rejected.
    mutating func refused(_ generation: Int, _ now: Time) -> Step {
        if refresh != nil { return .wait(begins: nil) }
        if generation < self.generation, let token { return .use(token, generation: self.generation) }
        return begin(now, isExpected: false)
    }

    /// Returns whether a newer token than that of the given generation exists, or a refresh that will provide one is
    /// running.
    func isNewer(than generation: Int) -> Bool { refresh != nil || generation < self.generation && token != nil }

    private mutating func begin(_ now: Time, isExpected: Bool) -> Step {
        recent.removeAll { now - $0 >= window }
        guard recent.count < max(1, limit) else { return .fail(.tooManyRefreshes(reason: lastFailure)) }
        recent.append(now)
        self.isExpected = isExpected
        refreshes += 1
        refresh = refreshes
        return .wait(begins: refreshes)
    }

    /// Records that a refresh has ended. Returns false if its result is ignored.
    mutating func end(_ number: Int, _ result: Result<AccessToken, any Error>, at date: Date) -> Bool {
        guard refresh == number else { return false }
        switch result {
        case .success(let token):
            var recent = recent
            // A refresh that was due does not count against the limit, unless the new token is valid for less than a
            // second, in which case each request would cause a refresh.
            let life = token.expires?.timeIntervalSince(date) ?? .infinity
            if isExpected, life >= 1 { _ = recent.popLast() }
            set(token, at: date)
            self.recent = recent
        case .failure(let error):
            refresh = nil
            lastFailure = error
        }
        return true
    }
}
