import ConvoySupport
import ConvoyTransport

/// Collects the metrics of one operation, from any thread. Operations of which nobody wants them have none.
final class MetricsRecord: Sendable {
    private enum Activity: Equatable {
        case waiting(WaitReason)
        case working
        case over
    }

    private struct Collected {
        var activity = Activity.waiting(.start)
        /// Since when it is that.
        var since: MonotonicTime
        var waits: [(reason: WaitReason, begin: MonotonicTime, end: MonotonicTime)] = []
        /// What the next delay between two tries is for; nil for a retry.
        var nextDelay: WaitReason?
        /// The number of the latest change of the lifecycle.
        var change: UInt32?
        var started: MonotonicTime?
        var redirectCount = 0
        var transactions: [TransactionMetrics] = []

        mutating func turn(to next: Activity, at now: MonotonicTime) {
            guard next != activity, activity != .over else { return }
            // Another thread may have read the clock later, and come first.
            let now = max(now, since)
            if case .waiting(let reason) = activity, now > since { waits.append((reason, since, now)) }
            activity = next
            since = now
        }
    }

    private let created = StartMoment.now
    private let collected: Locked<Collected>
    /// The record of the operation of whose work this one does a part; nil for none.
    private let parent: MetricsRecord?

    init(partOf parent: MetricsRecord? = nil) {
        self.parent = parent
        collected = Locked(Collected(since: created.time))
    }

    // MARK: Waits

    /// The operation is held back by a queue: called while the queue's lock is held. Does nothing for one that has begun, is
    /// paused, or waits for another try.
    func wait(for reason: WaitReason) {
        let now = StartMoment.timeNow
        collected.withLock { collected in
            guard case .waiting(let current) = collected.activity, current.isOfQueue else { return }
            collected.turn(to: .waiting(reason), at: now)
        }
    }

    /// Says what the next delay between two tries is for.
    func expectDelay(for reason: WaitReason) { collected.withLock { $0.nextDelay = reason } }

    /// The lifecycle has changed. Changes may come late, after those that followed them.
    ///
    /// - Parameter whenReady: what an operation waits for that is ready to be started.
    func note(_ transition: AtomicLifecycle.Transition, whenReady: @autoclosure () -> WaitReason) {
        guard let number = transition.number else { return }
        let now = StartMoment.timeNow
        let (old, new) = (transition.old, transition.new)
        let ready = new.isStartable ? whenReady() : .start
        collected.withLock { collected in
            if new.state == .executing, collected.started == nil { collected.started = now }
            if let latest = collected.change, Int32(bitPattern: number &- latest) < 0 { return }
            collected.change = number
            switch new.state {
            case .executing: collected.turn(to: .working, at: now)
            case .paused: collected.turn(to: .waiting(.pause), at: now)
            case .finished:
                collected.turn(to: .over, at: now)
            case .ready:
                if new.isBackingOff {
                    collected.turn(to: .waiting(collected.nextDelay.take() ?? .retry), at: now)
                } else if old.state != .ready || old.isBackingOff {
                    collected.turn(to: .waiting(ready), at: now)
                }
            }
        }
    }

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

    /// The metrics of the operation, which has finished. They do not change any more.
    func metrics(retryCount: Int) -> OperationMetrics {
        let now = StartMoment.timeNow
        return collected.withLock { collected in
            // Whoever asks may be ahead of the thread that has made the change.
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
    /// Whether it is before a start, be it the first or another one.
    fileprivate var isOfQueue: Bool {
        switch self {
        case .start, .dependencies, .barrier, .suspendedQueue, .slot, .hostLimit, .startRate, .closedGate: true
        case .retry, .connectivity, .token, .challenge, .pause: false
        }
    }
}
