import ConvoyCache
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The total time limit of an operation.
extension URLConnectionOperation {
    /// Starts the timer of `totalTimeout`, if set. Only the first call has an effect.
    package final func beginResourceTimeout() {
        let values = settings.values
        let clock = values.holder.clock
        guard let interval = values.totalTimeout, interval > 0, interval.isFinite else { return }
        let deadline = Nanoseconds.deadline(interval, after: clock.now)
        let isFirst = core.withLock { core in
            let isFirst = core.deadline == nil
            if isFirst { core.deadline = deadline }
            return isFirst
        }
        guard isFirst else { return }
        let timer = clock.schedule(at: deadline) { [weak self] in self?.handle(.expire) }
        let isOver = core.withLock { core in
            if !core.isFinished { core.expiryTimer = timer }
            return core.isFinished
        }
        if isOver { timer.cancel() }
    }

    /// Returns the number of seconds left until `totalTimeout` expires; nil without a timeout.
    func timeLeft(at now: UInt64) -> TimeInterval? {
        extra(\.deadline).map { $0 > now ? Nanoseconds.seconds(from: now, to: $0) : 0 }
    }

    /// The error of an operation whose `totalTimeout` has expired.
    var resourceTimeoutError: URLError {
        let error = URLError(
            .timedOut, url: request.url,
            "The operation did not finish within its totalTimeout.")
        return error.hiding(connectionConfiguration.secrets)
    }
}
