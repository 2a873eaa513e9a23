import ConvoySupport
import Foundation

/// The total time limit.
extension URLConnectionOperation {
    /// Starts the total time limit, if there is one. Only the first call counts.
    package final func beginResourceTimeout() {
        let (interval, clock) = core.withLock { ($0.common.values.totalTimeout, $0.common.values.holder.clock) }
        guard let interval, interval > 0, interval.isFinite else { return }
        let deadline = Nanoseconds.deadline(interval, after: clock.now)
        guard resourceDeadline.compareExchange(expected: 0, desired: deadline, ordering: .relaxed).exchanged
        else { return }
        let timer = clock.schedule(at: deadline) { [weak self] in self?.handle(.expire) }
        let isOver = core.withLock { core in
            if !core.isFinished { core.expiryTimer = timer }
            return core.isFinished
        }
        if isOver { timer.cancel() }
    }

    /// How many seconds are left of the total time limit; nil without one.
    func timeLeft(at now: UInt64) -> TimeInterval? {
        let deadline = resourceDeadline.load(ordering: .relaxed)
        return deadline == 0 ? nil : deadline > now ? Nanoseconds.seconds(from: now, to: deadline) : 0
    }

    /// The error of an operation that has run out of time.
    var resourceTimeoutError: URLError {
        let error = URLError(
            .timedOut, url: request.url,
            "The operation has not finished within the time that it may take in all (totalTimeout).")
        return error.hiding(connectionConfiguration.secrets)
    }
}
