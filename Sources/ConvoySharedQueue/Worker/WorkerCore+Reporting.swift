import ConvoySupport
import Foundation

/// Reporting the results of attempts.
extension WorkerCore {
    func report(_ store: WorkStore, _ standing: inout LoopState) throws(SharedQueueError) {
        let (reports, released) = shared.withLock { ($0.reports, $0.released) }
        if !reports.isEmpty {
            do throws(SharedQueueError) {
                settle(reports, try store.report(reports))
            } catch {
                guard case .failed = error else { throw error }
                try reportOneByOne(store, reports)
            }
            if standing.isHeldBack { shared.withLock { $0.hasWork = true } }
            for report in reports {
                switch report.end {
                case .failedForNow(let delay), .returned(let delay):
                    let due = Nanoseconds.deadline(Double(delay) / 1e6, after: MonotonicClock.now)
                    standing.maintenance = min(standing.maintenance, due)
                case .succeeded, .failed: break
                }
            }
            if isProbing { standing.rest = MonotonicClock.now + 1_000_000_000 }
        }
        if !released.isEmpty {
            try store.release(released, worker: standing.worker)
            shared.withLock { shared in for id in released.keys { shared.released[id] = nil } }
        }
    }

    /// Adds the duration of a request.
    func record(_ seconds: TimeInterval, host: String) {
        shared.withLock { $0.durations.add(seconds, host: host) }
    }

    /// Stores the durations of requests every few seconds, and before the worker stops.
    func recordDurations(
        _ store: WorkStore, _ standing: inout LoopState, isLast: Bool = false
    ) throws(SharedQueueError) {
        guard isLast || MonotonicClock.now >= standing.recording else { return }
        let durations = shared.withLock { shared in
            defer { shared.durations = HostDurations() }
            return shared.durations
        }
        guard !durations.hosts.isEmpty else { return }
        standing.recording = MonotonicClock.now + 5_000_000_000
        do throws(SharedQueueError) {
            try store.record(durations)
        } catch {
            // They are less important than the entries, which must not wait for them.
            guard case .unavailable = error else { return }
            shared.withLock { $0.durations.merge(durations) }
            throw error
        }
    }

    /// Stores reports that the database has rejected together. One that it also rejects alone is stored without the
    /// response. A report that cannot be stored is kept, because the entry must not be released.
    private func reportOneByOne(_ store: WorkStore, _ reports: [WorkReport]) throws(SharedQueueError) {
        for report in reports {
            do throws(SharedQueueError) {
                settle([report], try store.report([report]))
            } catch {
                guard case .failed(let text) = error else { throw error }
                var bare = report
                bare.result = nil
                bare.error = "The response could not be stored: \(text)"
                settle([report], try store.report([bare]))
            }
        }
    }

    /// Removes stored reports, and counts the results.
    private func settle(_ reports: [WorkReport], _ states: [UUID: WorkState]) {
        var failed: [(SharedQueueWorker.ClaimedEntry, String?)] = []
        shared.withLock { shared in
            let stored = Dictionary(reports.map { ($0.id, $0.lease) }, uniquingKeysWith: { $1 })
            shared.reports.removeAll { stored[$0.id] == $0.lease }
            for report in reports {
                let entry = shared.reported.removeValue(forKey: report.id)
                switch states[report.id] {
                case .done: shared.statistics.succeeded += 1
                case .failed:
                    shared.statistics.failed += 1
                    if let entry { failed.append((entry, report.error)) }
                case nil, .cancelled, .paused: shared.statistics.abandoned += 1
                case .waiting, .held, .ready, .leased, .retrying:
                    if case .returned = report.end {
                        shared.statistics.returned += 1
                    } else {
                        shared.statistics.failedForNow += 1
                    }
                }
            }
        }
        for (entry, reason) in failed { send(.failed(entry, reason: reason)) }
    }
}
