import ConvoySupport
import ConvoyTransport
import Foundation

/// The metrics of an operation, from its creation to its end: its waits, and all its requests. The counterpart of
/// Foundation's `URLSessionTaskMetrics`, which is missing on Linux.
///
/// All times are measured by a monotonic clock, relative to ``creationDate``. Like those of `TransactionMetrics`, they
/// are multiples of 2⁻²⁰ s, and their sums are exact.
public struct OperationMetrics: Sendable, Hashable {
    /// A period during which an operation waited.
    public struct Wait: Sendable, Hashable {
        /// The reason why the operation waited.
        public let reason: WaitReason
        /// The time at which the wait began, in seconds since ``OperationMetrics/creationDate``.
        public let start: TimeInterval
        /// The duration of the wait, in seconds.
        public let duration: TimeInterval
    }

    /// The date at which the operation was created, if its manager collects metrics or has monitors; otherwise, the
    /// date at which metrics or monitors were first enabled.
    public let creationDate: Date
    /// The time until the operation's work first began, in seconds; nil if it never began.
    public let start: TimeInterval?
    /// The time until the operation finished, in seconds.
    public let duration: TimeInterval
    /// The operation's waits, in order. In the remaining time, the operation was working: sending requests, calling
    /// handlers, and parsing responses.
    public let waits: [Wait]
    /// The number of redirects followed in all attempts.
    public let redirectCount: Int
    /// The number of retries after failures, as in ``URLConnectionOperation/retryCount``, including those of its parts.
    /// Requests that answer a challenge do not count.
    public let retryCount: Int
    /// The metrics of all requests of the operation, including cached responses, in the order in which they ended. A
    /// request that was paused and resumed has two elements, and a download has elements for all its parts. Requests
    /// that never reached the network are not included.
    public let transactions: [TransactionMetrics]

    /// The date at which the operation's work first began; nil if it never began.
    public var startDate: Date? { start.map(creationDate.addingTimeInterval) }
    /// The date at which the operation finished.
    public var endDate: Date { creationDate.addingTimeInterval(duration) }
    /// The total time that the operation waited, in seconds.
    public var waitDuration: TimeInterval { waits.reduce(0) { $0 + $1.duration } }
    /// The total time during which the operation was not waiting, in seconds.
    public var workDuration: TimeInterval { duration - waitDuration }

    /// Returns the total time that the operation waited for the given reason, in seconds.
    public func waitDuration(for reason: WaitReason) -> TimeInterval {
        waits.reduce(0) { $1.reason == reason ? $0 + $1.duration : $0 }
    }
}

extension OperationMetrics: CustomStringConvertible {
    /// A description without secrets: a line with the total time and the waits, and a line for each request.
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

/// A value that computes the metrics of an operation from its events.
struct MetricsFold {
    private let origin: StartMoment
    /// The reason why the operation waits; nil while it works.
    private var reason: WaitReason? = .start
    /// The time at which the current wait or work began.
    private var since: MonotonicTime
    private(set) var isOver = false
    private var start: TimeInterval?
    private var waits: [OperationMetrics.Wait] = []
    private var redirectCount = 0
    private var retryCount = 0
    private var transactions: [TransactionMetrics] = []

    /// - Parameter origin: The moment of ``OperationEvent/Kind/made``.
    init(from origin: StartMoment) {
        self.origin = origin
        since = origin.time
    }

    mutating func add(_ event: OperationEvent) { add(event.kind, at: event.moment) }

    mutating func add(_ kind: OperationEvent.Kind, at moment: MonotonicTime) {
        guard !isOver else { return }
        switch kind {
        case .waiting(let reason): enter(reason, at: moment)
        case .paused: enter(.pause, at: moment)
        case .attemptStarted:
            enter(nil, at: moment)
            start = start ?? origin.seconds(until: moment)
        case .continued: enter(nil, at: moment)
        case .requestEnded(_, _, let metrics?), .servedFromCache(_, let metrics): transactions.append(metrics)
        case .redirected(let redirect) where redirect.isFollowed: redirectCount += 1
        case .retryDecided(let event) where event.isRetry: retryCount += 1
        case .finished:
            enter(nil, at: moment)
            // No other event follows, so this is the end.
            since = max(moment, since)
            isOver = true
        default: break
        }
    }

    private mutating func enter(_ next: WaitReason?, at moment: MonotonicTime) {
        guard next != reason else { return }
        if let reason, moment > since {
            let start = origin.seconds(until: since)
            waits.append(
                OperationMetrics.Wait(reason: reason, start: start, duration: origin.seconds(until: moment) - start))
        }
        reason = next
        since = max(moment, since)
    }

    /// The metrics of the finished operation.
    var metrics: OperationMetrics {
        OperationMetrics(
            creationDate: origin.date, start: start, duration: origin.seconds(until: since), waits: waits,
            redirectCount: redirectCount, retryCount: retryCount, transactions: transactions)
    }
}

extension RedirectEvent {
    fileprivate var isFollowed: Bool {
        switch outcome {
        case .followed, .changedByHandler: true
        case .keptAsResponse, .refused: false
        }
    }
}

extension RetryEvent {
    fileprivate var isRetry: Bool {
        switch decision {
        case .retry, .waitForNetwork: true
        case .giveUp, .waitAtGate: false
        }
    }
}
