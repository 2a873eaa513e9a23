import ConvoySupport
import Foundation

/// The time limit for the whole operation.
extension URLConnectionOperation {
    /// How many seconds the operation may take in all, with its retries, the waits before them and its pauses. No limit
    /// by default, and none for zero, a negative number, infinity or NaN.
    ///
    /// The time runs from the first start of its work, or from when its queue first holds it back at the closed gate of
    /// its host, until it finishes, and goes on during pauses. `URLSession` counts its `timeoutIntervalForResource` in
    /// the same way. (`timeoutInterval` of the request is another limit: how long a transfer may go without a byte.)
    /// When the time is over, the operation finishes with `URLError.timedOut`, at once or when its transfer has
    /// stopped. It is not cancelled, and its dependents run. Setting this after the time has begun to run has no
    /// effect.
    public final var totalTimeout: TimeInterval? {
        get { core.withLock { $0.common.values.totalTimeout } }
        set { change { $0.totalTimeout = newValue } }
    }

    /// Starts the time limit for the whole operation, if it has one. Only the first call counts.
    package final func beginResourceTimeout() {
        let (interval, clock) = core.withLock { ($0.common.values.totalTimeout, $0.common.values.clock) }
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

    /// The error of an operation that has run out of time.
    var resourceTimeoutError: URLError {
        let error = URLError(
            .timedOut, url: request.url,
            "The operation has not finished within the time that it may take in all (totalTimeout).")
        return error.hiding(connectionConfiguration.secrets)
    }
}
