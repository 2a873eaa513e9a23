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
        /// The reason for the wait.
        public let reason: WaitReason
        /// The time at which the wait began, in seconds since ``OperationMetrics/creationDate``.
        public let start: TimeInterval
        /// The duration of the wait, in seconds.
        public let duration: TimeInterval
    }

    /// The date at which the operation was created, if its manager collects metrics; otherwise the date at which its
    /// metrics were enabled.
    public let creationDate: Date
    /// The time until the operation's work first began, in seconds; nil if it never began.
    public let start: TimeInterval?
    /// The time until the operation finished, in seconds.
    public let duration: TimeInterval
    /// The operation's waits, in order. In the remaining time, it was working: sending requests, calling handlers, and
    /// parsing responses.
    public let waits: [Wait]
    /// The number of redirects followed in all attempts.
    public let redirectCount: Int
    /// The number of retries after failures, as in ``URLConnectionOperation/retryCount``. Requests that answer a
    /// challenge do not count.
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
    /// The total time that the operation did not wait, in seconds.
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

/// A record that collects the metrics of one operation, from any thread. Operations without metrics have no record.
final class MetricsRecord: Sendable {
    private enum Activity: Equatable {
        case waiting(WaitReason)
        case working
        case over
    }

    private struct Collected {
        var activity = Activity.waiting(.start)
        /// The time at which the current activity began.
        var since: MonotonicTime
        var waits: [(reason: WaitReason, begin: MonotonicTime, end: MonotonicTime)] = []
        /// The reason of the next delay between two attempts; nil for a retry.
        var nextDelay: WaitReason?
        var started: MonotonicTime?
        var redirectCount = 0
        var transactions: [TransactionMetrics] = []

        mutating func read(_ change: TransitionLog.Change) {
            let (old, new) = (change.transition.old, change.transition.new)
            if new.state == .executing, started == nil { started = change.moment }
            switch new.state {
            case .executing: turn(to: .working, at: change.moment)
            case .paused: turn(to: .waiting(.pause), at: change.moment)
            case .finished: turn(to: .over, at: change.moment)
            case .ready:
                if new.isBackingOff {
                    turn(to: .waiting(nextDelay.take() ?? .retry), at: change.moment)
                } else if old.state != .ready || old.isBackingOff {
                    turn(to: .waiting(change.whenReady), at: change.moment)
                }
            }
        }

        mutating func turn(to next: Activity, at now: MonotonicTime) {
            guard next != activity, activity != .over else { return }
            // Another thread may have read the clock later but called this method first.
            let now = max(now, since)
            if case .waiting(let reason) = activity, now > since { waits.append((reason, since, now)) }
            activity = next
            since = now
        }
    }

    private let created = StartMoment.now
    private let collected: Locked<Collected>
    /// The record of the parent operation, if the operation is a part of another one.
    private let parent: MetricsRecord?

    init(partOf parent: MetricsRecord? = nil) {
        self.parent = parent
        collected = Locked(Collected(since: created.time))
    }

    // MARK: Waits

    /// Records the reason why a queue holds the operation back. Called with the queue's lock held. Has no effect if the
    /// operation has begun, is paused, or waits for another attempt.
    func wait(for reason: WaitReason) {
        let now = StartMoment.timeNow
        collected.withLock { collected in
            guard case .waiting(let current) = collected.activity, current.isOfQueue else { return }
            collected.turn(to: .waiting(reason), at: now)
        }
    }

    /// Sets the reason of the next delay between two attempts.
    func expectDelay(for reason: WaitReason) { collected.withLock { $0.nextDelay = reason } }

    /// Records a change of the lifecycle.
    func read(_ change: TransitionLog.Change) { collected.withLock { $0.read(change) } }

    // MARK: Requests

    func add(_ transaction: TransactionMetrics) {
        if let parent { return parent.add(transaction) }
        collected.withLock { $0.transactions.append(transaction) }
    }

    func note(_ redirect: RedirectEvent) {
        if let parent { return parent.note(redirect) }
        switch redirect.outcome {
        case .followed, .changedByHandler: collected.withLock { $0.redirectCount += 1 }
        case .keptAsResponse, .refused: break
        }
    }

    // MARK: The end

    /// Returns the final metrics of a finished operation.
    ///
    /// - Parameter early: The changes that were recorded but not delivered, because an earlier change is missing.
    func metrics(retryCount: Int, before early: [TransitionLog.Change]) -> OperationMetrics {
        let now = StartMoment.timeNow
        return collected.withLock { collected in
            for change in early { collected.read(change) }
            // The thread that finished the operation may not have recorded that change yet.
            collected.turn(to: .over, at: now)
            let ended = collected.since
            return OperationMetrics(
                creationDate: created.date, start: collected.started.map { created.seconds(until: min($0, ended)) },
                duration: created.seconds(until: ended),
                waits: collected.waits.map { reason, begin, end in
                    let start = created.seconds(until: begin)
                    return OperationMetrics.Wait(
                        reason: reason, start: start, duration: created.seconds(until: end) - start)
                },
                redirectCount: collected.redirectCount, retryCount: retryCount, transactions: collected.transactions)
        }
    }
}

extension WaitReason {
    /// Whether an operation that waits for this reason is waiting for its first or a later start.
    fileprivate var isOfQueue: Bool {
        switch self {
        case .start, .dependencies, .barrier, .suspendedQueue, .slot, .hostLimit, .startRate, .closedGate: true
        case .retry, .connectivity, .token, .challenge, .pause: false
        }
    }
}
