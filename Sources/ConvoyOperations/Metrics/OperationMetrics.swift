import ConvoyTransport
import Foundation

/// What an operation took, from when it was made until it had finished: how long it waited for what, and all its requests.
/// The counterpart of Foundation's `URLSessionTaskMetrics`, which Foundation on Linux does not have.
///
/// All times are by a clock that never goes back, and relate to the date of ``creationDate``. Like those of
/// `TransactionMetrics`, they are multiples of 2⁻²⁰ s, and their sums are exact.
public struct OperationMetrics: Sendable, Hashable {
    /// A time in which an operation waited.
    public struct Wait: Sendable, Hashable {
        /// What it waited for.
        public let reason: WaitReason
        /// When the wait began, in seconds since ``OperationMetrics/creationDate``.
        public let start: TimeInterval
        /// How long it was, in seconds.
        public let duration: TimeInterval
    }

    /// When the operation was made by a manager that collects metrics; otherwise, when it was asked to collect them.
    public let creationDate: Date
    /// Seconds from then until its work began for the first time; nil if it never did.
    public let start: TimeInterval?
    /// Seconds from then until it had finished.
    public let duration: TimeInterval
    /// When and for what it waited, in that order. In the rest of the time it worked: it sent requests, asked handlers, and
    /// parsed what had come.
    public let waits: [Wait]
    /// How many redirects were followed, in all tries.
    public let redirectCount: Int
    /// How often its request was retried after a failure, as ``URLConnectionOperation/retryCount``. Requests that answer a
    /// server's question for a credential do not count.
    public let retryCount: Int
    /// The metrics of all its requests, and of what came out of the cache, in the order in which they ended. A pause and a
    /// resume make two, and a download has those of all its parts. What was never given to the network has none.
    public let transactions: [TransactionMetrics]

    /// When its work began for the first time; nil if it never did.
    public var startDate: Date? { start.map(creationDate.addingTimeInterval) }
    /// When it had finished.
    public var endDate: Date { creationDate.addingTimeInterval(duration) }
    /// How long it waited, in seconds.
    public var waitDuration: TimeInterval { waits.reduce(0) { $0 + $1.duration } }
    /// How long it worked, in seconds: when it did not wait.
    public var workDuration: TimeInterval { duration - waitDuration }

    /// How long it waited for something, in seconds.
    public func waitDuration(for reason: WaitReason) -> TimeInterval {
        waits.reduce(0) { $1.reason == reason ? $0 + $1.duration : $0 }
    }
}

extension OperationMetrics: CustomStringConvertible {
    /// The whole time and the waits on one line, and a line for each request, without secrets.
    public var description: String {
        var line = String(format: "%.3f s", duration)
        let reasons = WaitReason.allCases.filter { reason in waits.contains { $0.reason == reason } }
        if !reasons.isEmpty {
            let texts = reasons.map { "\($0.rawValue) \(String(format: "%.3f s", waitDuration(for: $0)))" }
            line += ", waited: " + texts.joined(separator: ", ")
        }
        if redirectCount > 0 { line += ", redirects: \(redirectCount)" }
        if retryCount > 0 { line += ", retries: \(retryCount)" }
        return ([line] + transactions.map { "  \($0)" }).joined(separator: "\n")
    }
}
