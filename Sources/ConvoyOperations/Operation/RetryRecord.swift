/// How often a request has been tried again. Few operations have one. Guarded by the operation's lock.
final class RetryRecord: @unchecked Sendable {
    /// All retries.
    var count = 0
    /// Those that the policy has decided on.
    var counted = 0
    /// Those at once, since something else happened.
    var immediateInARow = 0
    var began: UInt64?
    /// When the next try is due, on the clock.
    var due: UInt64 = 0
    /// Keeps the operation alive while it waits: by the try after which it does.
    var waiting: [Lifecycle.TryNumber: URLConnectionOperation] = [:]

    /// The numbers, to be read without the lock.
    var copy: RetryRecord {
        let copy = RetryRecord()
        (copy.count, copy.counted, copy.began) = (count, counted, began)
        return copy
    }
}
