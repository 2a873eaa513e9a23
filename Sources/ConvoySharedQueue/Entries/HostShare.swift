import Foundation

/// The limits that all workers share for a host, and the remaining allowance. A pure value, which is stored in the
/// host's row and changed only while that row is locked.
///
/// Times are in microseconds since 1970 on the store's clock.
package struct HostShare: Sendable, Equatable {
    package var limits: HostLimits
    /// The number of requests that may begin immediately, according to the rate.
    package var tokens: Double
    /// The time at which the tokens were last counted.
    package var refilled: Int64
    /// The end of the time during which no request is sent to the host.
    package var gate: Int64
    /// The number of retries that the host has earned.
    package var retries: Double
    /// The number of consecutive times that the host was overloaded without specifying a time. While it is positive,
    /// requests are sent one at a time.
    package var failures = 0

    package init(limits: HostLimits, now: Int64) {
        self.limits = limits
        tokens = limits.burst
        refilled = now
        gate = 0
        retries = Self.retryReserve
    }

    package init(
        limits: HostLimits, tokens: Double, refilled: Int64, gate: Int64, retries: Double, failures: Int
    ) {
        self.limits = limits
        self.tokens = tokens
        self.refilled = refilled
        self.gate = gate
        self.retries = retries
        self.failures = failures
    }

    /// The first gate of an overloaded host, which doubles with each further failure, and the longest one, in
    /// microseconds.
    private static let (firstGate, longestGate): (Int64, Int64) = (250_000, 60_000_000)
    /// The time after which another probe is sent unless the last one was successful, in microseconds.
    private static let probeInterval: Int64 = 1_000_000

    /// The initial and maximum number of saved retries.
    private static let retryReserve = 10.0
    /// The additional delay of a retry that exceeds the budget, in microseconds.
    private static let costlyDelay: Int64 = 60_000_000

    /// Returns the number of entries that can be claimed now.
    ///
    /// - Parameter leased: The number of leased entries.
    package mutating func allowance(leased: Int, now: Int64) -> Int {
        guard gate <= now else { return 0 }
        refill(now)
        let places = limits.maximumConcurrentRequests.map { max(0, $0 - leased) } ?? .max
        let starts = limits.requestsPerSecond == nil ? .max : Int(max(0, min(tokens, 1e9)))
        return min(places, starts, failures > 0 ? 1 : .max)
    }

    /// Records that entries were claimed.
    package mutating func take(_ count: Int, now: Int64) {
        if failures > 0, count > 0 { gate = max(gate, now.addingReportingOverflow(Self.probeInterval).partialValue) }
        guard limits.requestsPerSecond != nil else { return }
        tokens -= Double(count)
    }

    private mutating func refill(_ now: Int64) {
        guard let rate = limits.requestsPerSecond else { return }
        // Ignore a negative time, because the clock may have been set back.
        let elapsed = max(0, Double(now) - Double(refilled)) / 1e6
        tokens = min(limits.burst, tokens + elapsed * max(0, rate))
        refilled = now
    }

    /// Returns the time at which the host can be used again, according to its gate and its rate; nil if it can be used
    /// now.
    package func nextTime(after now: Int64) -> Int64? {
        if gate > now { return gate }
        guard let rate = limits.requestsPerSecond, rate > 0, tokens < 1 else { return nil }
        return now + Int64(min((1 - tokens) / rate, 3600) * 1e6) + 1
    }

    /// Records the end of an attempt. Returns the additional delay before the next one, in microseconds.
    ///
    /// - Parameter isFirst: Whether the attempt was the first one of its entry.
    package mutating func account(isFirst: Bool, retries isRetried: Bool) -> Int64 {
        guard let share = limits.retryShare else { return 0 }
        if isFirst { retries = min(Self.retryReserve, retries + max(0, share)) }
        guard isRetried else { return 0 }
        guard retries >= 1 else { return Self.costlyDelay }
        retries -= 1
        return 0
    }

    /// Closes the gate of the host until a time that the host has specified.
    package mutating func close(until time: Int64) {
        gate = max(gate, time)
        failures = 0
    }

    /// Records that the host was overloaded without specifying a time. The gate closes for a short time, which grows
    /// with the number of consecutive failures.
    ///
    /// - Parameter claimed: The time at which the entry was claimed. While the gate is closed, only the failure of the
    ///   last probe counts, not those of requests that were sent before.
    package mutating func recordOverload(claimed: Int64, now: Int64) {
        let isProbe = failures > 0 && claimed.addingReportingOverflow(Self.probeInterval).partialValue == gate
        guard gate <= now || isProbe else { return }
        failures = min(failures + 1, 1000)
        let duration = min(Self.firstGate << Int64(min(failures - 1, 20)), Self.longestGate)
        gate = now.addingReportingOverflow(duration).partialValue
    }

    /// Records that the host works. Opens the gate, unless the host has specified its time.
    package mutating func recordSuccess(now: Int64) {
        guard failures > 0 else { return }
        failures = 0
        gate = min(gate, now)
    }
}

/// The limits that all workers of a ``SharedQueue`` share for a host, or for a tag.
public struct HostLimits: Sendable, Hashable {
    /// The maximum number of concurrent requests, at least one; nil for no limit.
    public var maximumConcurrentRequests: Int? {
        didSet { maximumConcurrentRequests = maximumConcurrentRequests.map { max(1, $0) } }
    }
    /// The maximum number of requests per second, which may be a fraction; nil for no limit. Negative numbers and NaN
    /// are treated as 0. After a pause, the requests of one second may begin at once.
    public var requestsPerSecond: Double? {
        didSet { requestsPerSecond = requestsPerSecond.map { $0 > 0 ? min($0, 1e9) : 0 } }
    }
    /// The maximum number of retries per first attempt, in addition to a reserve of ten; nil for no limit. A retry that
    /// exceeds the budget is delayed by a further minute.
    public var retryShare: Double? {
        didSet { retryShare = retryShare.map { $0 > 0 ? min($0, 1e9) : 0 } }
    }

    /// Creates limits, none of which is set by default.
    public init(
        maximumConcurrentRequests: Int? = nil, requestsPerSecond: Double? = nil, retryShare: Double? = nil
    ) {
        self.maximumConcurrentRequests = maximumConcurrentRequests.map { max(1, $0) }
        self.requestsPerSecond = requestsPerSecond.map { $0 > 0 ? min($0, 1e9) : 0 }
        self.retryShare = retryShare.map { $0 > 0 ? min($0, 1e9) : 0 }
    }

    /// The number of requests that may begin at once after a pause: those of one second, at least one.
    var burst: Double { max(1, requestsPerSecond ?? 1) }

    /// Whether any limit is set.
    package var isLimited: Bool { self != HostLimits() }
}
