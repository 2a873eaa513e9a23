import Foundation

/// How many operations may start in a second.
///
/// ```swift
/// queue.maximumStartRate = StartRate(perSecond: 20, burst: 5)
/// queue.maximumStartRatePerHost = StartRate(perSecond: 100.0 / 3600)  // a hundred an hour
/// ```
public struct StartRate: Sendable, Hashable {
    /// How many may start in a second, in the long run.
    public let startsPerSecond: Double

    /// How many may start at once after a time of rest. With 1 they start at even intervals.
    public let burst: Int

    /// A rate.
    ///
    /// - Parameters:
    ///   - startsPerSecond: how many may start in a second; also fewer than one.
    ///   - burst: how many may start at once after a time of rest.
    /// - Precondition: both are positive.
    public init(perSecond startsPerSecond: Double, burst: Int = 1) {
        precondition(startsPerSecond > 0, "with a rate of \(startsPerSecond) nothing would ever start; use isSuspended")
        precondition(burst >= 1, "with a burst of \(burst) nothing would ever start")
        self.startsPerSecond = startsPerSecond
        self.burst = burst
    }
}
