import Foundation

/// What an `Authenticator` knows, and what each event does: a value without locks, clocks and I/O.
struct TokenState: Sendable {
    /// Seconds, of any clock that does not go backwards.
    typealias Time = TimeInterval

    private(set) var token: AccessToken?
    /// Grows with each token. A request that was sent with an older one than the present is sent again.
    private(set) var generation = 0
    /// When the token is to be refreshed, as it ends soon.
    private var isDue: Date?
    /// The refresh that is under way, by its number.
    private(set) var refresh: Int?
    private var refreshes = 0
    /// When the last refreshes began that count against the limit.
    private var recent: [Time] = []
    /// Whether the refresh is one that was due, and not asked for by a server that has refused the token.
    private var isExpected = false
    private var lastFailure: (any Error)?

    /// At most so many refreshes
    var limit = 5
    /// in so many seconds.
    var window: Time = 30
    /// How many seconds before its end a token is refreshed.
    var leeway: TimeInterval = 30

    enum Step {
        /// There is a token to send.
        case use(AccessToken, generation: Int)
        /// Wait for the refresh; if `begins` is set, it is to be begun, under that number.
        case wait(begins: Int?)
        case fail(AuthenticatorError)
    }

    init(_ token: AccessToken?, at date: Date, leeway: TimeInterval) {
        self.leeway = leeway
        set(token, at: date)
    }

    /// Sets the token, from outside. A refresh that is under way counts no more: this token is newer. One that was taken
    /// away is replaced by that refresh, as a second one beside it would present the same refresh token again.
    mutating func set(_ token: AccessToken?, at date: Date) {
        self.token = token
        generation += 1
        if token != nil { refresh = nil }
        lastFailure = nil
        if token != nil { recent = [] }
        isDue = token?.expires.map { end in
            // A token that lives for less than twice the leeway would be due at once, and again and again.
            let life = end.timeIntervalSince(date)
            return life > 0 ? end.addingTimeInterval(-min(max(0, leeway), life / 2)) : .distantFuture
        }
    }

    /// A request is about to be sent.
    mutating func next(_ now: Time, _ date: Date) -> Step {
        if refresh != nil { return .wait(begins: nil) }
        if let token, isDue.map({ date < $0 }) ?? true { return .use(token, generation: generation) }
        return begin(now, isExpected: true)
    }

    /// A request was refused that was sent with the token of a generation.
    mutating func refused(_ generation: Int, _ now: Time) -> Step {
        if refresh != nil { return .wait(begins: nil) }
        if generation < self.generation, let token { return .use(token, generation: self.generation) }
        return begin(now, isExpected: false)
    }

    /// Whether there is a newer token than that of a generation, or will be.
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

    /// A refresh has ended. False if it does not count any more.
    mutating func end(_ number: Int, _ result: Result<AccessToken, any Error>, at date: Date) -> Bool {
        guard refresh == number else { return false }
        switch result {
        case .success(let token):
            var recent = recent
            // Tokens that live for seconds are no fault; of those that live for less, each request would refresh one.
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
