import ConvoyReachability

/// A network whose return ends the wait for a retry.
struct AwaitedNetwork {
    let target: NetworkTarget
    /// Whether there was no way to it when the try failed.
    let isGone: Bool
}

/// The wait between an attempt that has ended and the next one. Guarded by the operation's lock.
final class AttemptWait: @unchecked Sendable {
    /// When the next attempt is due, on the clock; the largest number if an answer ends the wait.
    let due: UInt64
    /// What the network must have a way to, for the wait to end early.
    let network: AwaitedNetwork?
    /// Keeps the operation alive while it waits.
    var operation: URLConnectionOperation?
    /// What ends the wait: the first one does.
    var timers: [any ClockTimer] = []
    var networkWait: NetworkReturn.Wait?

    init(until due: UInt64, or network: AwaitedNetwork? = nil) { (self.due, self.network) = (due, network) }

    /// It is due, or no longer needed. To be called without the lock, when the attempt has it no more.
    func end() {
        for timer in timers { timer.cancel() }
        (operation, networkWait, timers) = (nil, nil, [])
    }
}

/// How often a request has been retried. Few operations have one. Guarded by the operation's lock.
final class RetryRecord: @unchecked Sendable {
    /// All retries.
    var count = 0
    /// The retries that the policy decided on, since the transfer last made progress.
    var counted = 0
    /// How many bytes of the body the try had that came furthest.
    var furthest: Int64 = 0
    /// The immediate retries since the last other outcome.
    var immediateInARow = 0
    var began: UInt64?
    /// Why the last failure was not tried again.
    var refusal: RetryEvent.Refusal?
    /// Whether the next try is made because of what the server has answered.
    var followsAnswer = false
    /// When the network came back, on the clock.
    var networkReturned: UInt64?
    /// How often a name was looked up in vain since then.
    var lookups = 0
    /// How often in a row a try was made because there was a way to the host alone.
    var returnsToHost = 0

    /// Notes how far a try has come. If it has brought more than all before it, the retries are counted anew.
    func note(_ progress: TransferProgress) {
        let whole = progress.bytesExpectedToReceive ?? .max
        let step = min(16 << 10, max(1, whole / 64))
        guard progress.bytesReceived - furthest >= step else { return }
        furthest = progress.bytesReceived
        counted = 0
    }

    /// A copy of the counts, to be read without the lock.
    var copy: RetryRecord {
        let copy = RetryRecord()
        (copy.count, copy.counted, copy.began) = (count, counted, began)
        return copy
    }
}
