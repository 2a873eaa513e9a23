import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The total time limit of an operation.
extension URLConnectionOperation {
    /// Starts the timer of `totalTimeout`, if set. Only the first call has an effect.
    package final func beginResourceTimeout() {
        let start = core.withLock { core -> (clock: any SchedulingClock, deadline: UInt64)? in
            guard core.deadline == nil, let interval = core.common.values.totalTimeout, interval > 0, interval.isFinite
            else { return nil }
            let clock = core.common.values.holder.clock
            let deadline = Nanoseconds.deadline(interval, after: clock.now)
            core.deadline = deadline
            return (clock, deadline)
        }
        guard let (clock, deadline) = start else { return }
        // A commit may have set its own timer in the meantime, which must stay.
        setExpiryTimer(clock.schedule(at: deadline) { [weak self] in self?.handle(.expire) }, replacesOther: false)
    }

    /// Sets the timer that limits the duration of the operation, and cancels the previous one. If the operation has
    /// finished, or another timer must not be replaced, cancels the new timer instead.
    func setExpiryTimer(_ timer: any ClockTimer, replacesOther: Bool = true) {
        let unused = core.withLock { core -> (any ClockTimer)? in
            if core.isFinished || !replacesOther && core.expiryTimer != nil { return timer }
            defer { core.expiryTimer = timer }
            return core.expiryTimer
        }
        unused?.cancel()
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
