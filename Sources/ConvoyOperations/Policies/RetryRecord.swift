import Foundation

/// The retries of a request so far, as a value of which `NextStep.decide` returns an updated copy.
struct RetryRecord {
    /// The total number of retries.
    var count = 0
    /// The number of retries made by the policy since the transfer last made progress.
    var counted = 0
    /// The largest number of body bytes transferred in any attempt.
    private var furthest: Int64 = 0
    /// The number of consecutive immediate retries.
    var immediateInARow = 0
    /// The time on the clock when the first attempt began; nil before that, and without a policy.
    var began: UInt64?
    /// The reason why the last failure was not retried.
    var refusal: RetryEvent.Refusal?
    /// Whether the last attempt received a response.
    var followsAnswer = false
    /// Whether the next attempts use HTTP/1.1.
    var avoidsHTTP2 = false
    /// The time on the clock when the network last returned.
    var networkReturned: UInt64?
    /// The number of failed name lookups since `networkReturned`.
    var lookups = 0
    /// The number of consecutive attempts made because a route existed to the host, but not to the Internet.
    var returnsToHost = 0

    /// Records the progress of an attempt. If it exceeds that of all earlier attempts, the retry count is reset.
    mutating func note(_ progress: TransferProgress) {
        let whole = progress.bytesExpectedToReceive ?? .max
        let step = min(16 << 10, max(1, whole / 64))
        guard progress.bytesReceived - furthest >= step else { return }
        furthest = progress.bytesReceived
        counted = 0
    }

    /// Records the progress of an upload that another attempt will resume.
    mutating func noteSent(_ progress: TransferProgress) {
        guard progress.bytesSent > furthest else { return }
        furthest = progress.bytesSent
        counted = 0
    }
}
