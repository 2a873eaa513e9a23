import Foundation

/// The state of an `Authenticator`: a value without locks, clocks or I/O.
struct TokenState: Sendable {
    /// The time of a monotonic clock, in seconds.
    typealias Time = TimeInterval

    private(set) var token: AccessToken?
    /// Grows with each token. A request sent with an older token than the current one is sent again.
    private(set) var generation = 0
    /// When the token will be refreshed, shortly before its expiry.
    private var isDue: Date?
    /// The number of the running refresh.
    private(set) var refresh: Int?
    private var refreshes = 0
    /// The start times of the last refreshes that count against the limit.
    private var recent: [Time] = []
    /// Whether the refresh was due, rather than caused by a rejected token.
    private var isExpected = false
    private var lastFailure: (any Error)?

    /// The maximum number of refreshes in `window`.
    var limit = 5
    /// The length of the window, in seconds.
    var window: Time = 30
    /// The number of seconds before its expiry at which a token is refreshed.
    var leeway: TimeInterval = 30

    enum Step {
        /// Send this token.
        case use(AccessToken, generation: Int)
        /// Wait for the refresh; if `begins` is set, begin it under that number.
        case wait(begins: Int?)
        case fail(AuthenticatorError)
    }

    init(_ token: AccessToken?, at date: Date, leeway: TimeInterval) {
        self.leeway = leeway
        set(token, at: date)
    }

    /// Sets the token from outside. If it is not nil, the result of a running refresh is ignored, because this token is
    /// newer. If it is nil, the running refresh replaces it: a second one would present the same refresh token again.
    mutating func set(_ token: AccessToken?, at date: Date) {
        self.token = token
        generation += 1
        if token != nil { refresh = nil }
        lastFailure = nil
        if token != nil { recent = [] }
        isDue = token?.expires.map { end in
            // A token with a lifetime shorter than twice the leeway would be due immediately, again and again.
            let life = end.timeIntervalSince(date)
            return life > 0 ? end.addingTimeInterval(-min(max(0, leeway), life / 2)) : .distantFuture
        }
    }

    /// Returns the step for a request that is about to be sent.
    mutating func next(_ now: Time, _ date: Date) -> Step {
        if refresh != nil { return .wait(begins: nil) }
        if let token, isDue.map({ date < $0 }) ?? true { return .use(token, generation: generation) }
        return begin(now, isExpected: true)
    }

    /// Returns the step for a request whose token, of this generation, was rejected.
    mutating func refused(_ generation: Int, _ now: Time) -> Step {
        if refresh != nil { return .wait(begins: nil) }
        if generation < self.generation, let token { return .use(token, generation: self.generation) }
        return begin(now, isExpected: false)
    }

    /// Whether a newer token than that of a generation exists, or a running refresh will provide one.
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
            // Short lifetimes are valid; but with lifetimes below this, each request would cause a refresh.
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
