import Foundation

/// What all workers together may do at a host, and what is left of it: a pure value, which stores keep, and change while
/// they hold the host's row.
///
/// Times are microseconds since 1970 on the clock of the store.
package struct HostShare: Sendable, Equatable {
    package var limits: HostLimits
    /// How many requests may begin at once, by the rate.
    package var tokens: Double
    /// When the tokens were counted.
    package var refilled: Int64
    /// Until when the host is left alone.
    package var gate: Int64
    /// How many retries the host has earned.
    package var retries: Double

    package init(limits: HostLimits, now: Int64) {
        self.limits = limits
        tokens = limits.burst
        refilled = now
        gate = 0
        retries = Self.retryReserve
    }

    package init(limits: HostLimits, tokens: Double, refilled: Int64, gate: Int64, retries: Double) {
        (self.limits, self.tokens, self.refilled, self.gate, self.retries) = (limits, tokens, refilled, gate, retries)
    }

    /// The retries that a host has at first, and the most that it can save.
    private static let retryReserve = 10.0
    /// How much later a retry comes that the budget does not cover, in microseconds.
    private static let costlyDelay: Int64 = 60_000_000

    /// How many entries can be claimed now.
    ///
    /// - Parameter leased: how many are leased.
    package mutating func allowance(leased: Int, now: Int64) -> Int {
        guard gate <= now else { return 0 }
        refill(now)
        let places = limits.maximumConcurrentRequests.map { max(0, $0 - leased) } ?? .max
        let starts = limits.requestsPerSecond == nil ? .max : Int(max(0, min(tokens, 1e9)))
        return min(places, starts)
    }

    /// Entries were claimed.
    package mutating func take(_ count: Int) {
        guard limits.requestsPerSecond != nil else { return }
        tokens -= Double(count)
    }

    private mutating func refill(_ now: Int64) {
        guard let rate = limits.requestsPerSecond else { return }
        // The clock may have been set back.
        let elapsed = max(0, Double(now) - Double(refilled)) / 1e6
        tokens = min(limits.burst, tokens + elapsed * max(0, rate))
        refilled = now
    }

    /// When the host can be asked again; nil for now, as far as its gate and its rate are concerned.
    package func nextTime(after now: Int64) -> Int64? {
        if gate > now { return gate }
        guard let rate = limits.requestsPerSecond, rate > 0, tokens < 1 else { return nil }
        return now + Int64(min((1 - tokens) / rate, 3600) * 1e6) + 1
    }

    /// An attempt has ended, which was the first of its entry or not. Returns how much later than intended the next one must
    /// be, in microseconds.
    package mutating func account(isFirst: Bool, retries isRetried: Bool) -> Int64 {
        guard let share = limits.retryShare else { return 0 }
        if isFirst { retries = min(Self.retryReserve, retries + max(0, share)) }
        guard isRetried else { return 0 }
        guard retries >= 1 else { return Self.costlyDelay }
        retries -= 1
        return 0
    }

    /// The host is to be left alone until a time.
    package mutating func close(until time: Int64) { gate = max(gate, time) }
}

/// What all workers of a ``SharedQueue`` together may do at a host.
public struct HostLimits: Sendable, Hashable {
    /// How many requests are under way at once; nil for no limit. At least one.
    public var maximumConcurrentRequests: Int? {
        didSet { maximumConcurrentRequests = maximumConcurrentRequests.map { max(1, $0) } }
    }
    /// How many requests begin in a second; nil for no limit. May be a fraction. Negative and NaN count as 0. After a pause those
    /// of a second may begin at once.
    public var requestsPerSecond: Double? {
        didSet { requestsPerSecond = requestsPerSecond.map { $0 > 0 ? min($0, 1e9) : 0 } }
    }
    /// Which share of the first attempts may be followed by a retry, beside a reserve of ten; nil for no limit. A retry that
    /// the budget does not cover comes a minute later than it would have.
    public var retryShare: Double? {
        didSet { retryShare = retryShare.map { $0 > 0 ? min($0, 1e9) : 0 } }
    }

    /// No limits.
    public init(
        maximumConcurrentRequests: Int? = nil, requestsPerSecond: Double? = nil, retryShare: Double? = nil
    ) {
        self.maximumConcurrentRequests = maximumConcurrentRequests.map { max(1, $0) }
        self.requestsPerSecond = requestsPerSecond.map { $0 > 0 ? min($0, 1e9) : 0 }
        self.retryShare = retryShare.map { $0 > 0 ? min($0, 1e9) : 0 }
    }

    /// How many requests may begin at once after a pause: those of a second, and at least one.
    var burst: Double { max(1, requestsPerSecond ?? 1) }

    /// Whether something is limited.
    package var isLimited: Bool { self != HostLimits() }
}
