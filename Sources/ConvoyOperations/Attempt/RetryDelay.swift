import ConvoyReachability

/// The wait between an attempt that has ended and the next attempt. The operation's lock guards it.
final class RetryDelay: @unchecked Sendable {
    /// The time on the clock at which the next attempt is due; the maximum value if an answer ends the wait.
    let due: UInt64
    /// The network whose return ends the wait early, if any.
    let network: NetworkCondition?
    let reason: WaitReason
    /// The waiting operation, which this reference keeps alive.
    var operation: URLConnectionOperation?
    /// The timers that end the wait. The first one that fires ends it.
    var timers: [any ClockTimer] = []
    var networkWait: NetworkReturn.Wait?

    init(until due: UInt64, or network: NetworkCondition? = nil, for reason: WaitReason = .retry) {
        self.due = due
        self.reason = reason
        self.network = network
    }

    /// Ends the wait. Call it without holding the lock, after the attempt has released it.
    func cancel() {
        for timer in timers { timer.cancel() }
        operation = nil
        networkWait = nil
        timers = []
    }
}
