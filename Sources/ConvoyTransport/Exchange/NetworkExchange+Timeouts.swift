import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking

/// The times of the last activity and the limits on inactivity, in nanoseconds of the run loop's clock.
struct TransferTimes {
    var lastActivity: MonotonicTime = 0
    /// The time when the request began, or when the last byte of its body was sent.
    var lastSent: MonotonicTime = 0
    /// The idle timeout; 0 for no limit.
    var idleLimit: MonotonicTime = 0
    /// The timeout for the response head; 0 for no separate limit.
    var headLimit: MonotonicTime = 0
}

/// The timeouts of a transfer. They share one timer, which is not rescheduled for each byte: when it fires, it checks
/// the time of the last byte and is scheduled again.
extension NetworkExchange {
    func startTimer(of chain: RequestChain) {
        let now = multi.runLoop.turnTime
        times = TransferTimes(
            lastActivity: now, lastSent: now, idleLimit: Self.nanoseconds(chain.step.request.timeoutInterval),
            headLimit: Self.nanoseconds(chain.configuration.timeoutIntervalForHead ?? 0))
        if let limit = chain.configuration.stallLimit { stallMeter = StallMeter(limit, at: now) }
        if let deadline = nextDeadline { handle.schedule(at: deadline, on: multi.runLoop) }
    }

    /// Converts seconds to nanoseconds. Returns 0, meaning no limit, for values that are not a useful limit.
    private static func nanoseconds(_ seconds: TimeInterval) -> MonotonicTime {
        seconds > 0 && seconds < 1e9 ? max(1, UInt64(seconds * 1e9)) : 0
    }

    /// Records that a byte of a body has been transferred.
    func noteActivity() { times.lastActivity = multi.runLoop.turnTime }

    /// Records that a byte of the request's body has been transferred, or that a pause has prevented the transfer.
    func noteSending() {
        noteActivity()
        times.lastSent = times.lastActivity
    }

    /// Records that a line of a head has arrived. Unless heads have a separate limit, only the first and the last line
    /// count; otherwise a server that sends a line now and then would never time out.
    func noteHeadLine(isFirst: Bool) {
        if isFirst || times.headLimit > 0 { noteActivity() }
    }

    var nextDeadline: MonotonicTime? {
        var next = MonotonicTime.max
        if times.idleLimit > 0 { next = times.lastActivity + times.idleLimit }
        if times.headLimit > 0, !isHeadWhole { next = min(next, times.lastSent + times.headLimit) }
        if let check = stallMeter?.nextCheck { next = min(next, check) }
        if let deadline = rest?.deadline { next = min(next, deadline) }
        return next == .max ? nil : next
    }

    /// Called when the handle's timer has fired.
    func timerDidFire() {
        guard let chain else { return }
        let runLoop = multi.runLoop
        let now = runLoop.turnTime
        if rest != nil, isRestOver(at: now, chain) { return giveUpRest() }
        let flow = chain.step.flow
        // Time during which this side holds the transfer back does not count against the server.
        if flow.isHeldBack || flow.isStarved && !mayEndWithoutBody { times.lastActivity = now }
        if flow.isStarved { times.lastSent = now }
        if flow.isPaused { noteSending() }
        switch chain.phase {
        case .deciding, .askingCookies, .storing: times.lastActivity = now
        default: break
        }
        stallMeter?.advance(to: now)
        if stallMeter?.isStalled == true, let failure = stallFailure(chain) {
            stop()
            return chain.fail(failure)
        }
        if flow.isStarved, mayEndWithoutBody, nextDeadline.map({ now < $0 }) ?? true {
            // Set the timer first, because the next call may end the transfer.
            handle.schedule(at: min(nextDeadline ?? .max, now + Self.starvationCheckInterval), on: runLoop)
            return goOnWithoutBody()
        }
        guard let deadline = nextDeadline else { return }
        guard now >= deadline else { return handle.schedule(at: deadline, on: runLoop) }
        // An HTTP/2 connection may be dead without any sign. Close it, so that the next request does not wait for it as
        // well.
        stop(closing: true)
        let isIdle = times.idleLimit > 0 && now >= times.lastActivity + times.idleLimit
        let seconds = Double(isIdle ? times.idleLimit : times.headLimit) / 1e9
        chain.fail(
            chain.failure(
                .timedOut,
                isIdle
                    ? "No data was transferred for \(seconds) seconds."
                    : "The response head was not complete after \(seconds) seconds."))
    }

    // MARK: Stalls

    /// Records that the transfer has started or stopped waiting for this side, if a stall limit is set.
    func noteFlowIfMeasured() {
        guard stallMeter != nil else { return }
        stallMeter?.setCounting(couldMove, at: NetworkRunLoop.now)
        if let check = stallMeter?.nextCheck { handle.schedule(at: check, on: multi.runLoop) }
    }

    /// Whether nothing on this side prevents bytes of a body from flowing.
    private var couldMove: Bool {
        guard let chain else { return false }
        switch chain.phase {
        case .loading, .draining: break
        default: return false
        }
        let flow = chain.step.flow
        guard chain.step.stored == nil, !flow.isHeldBack, flow.isFree else { return false }
        return isHeadWhole || isSendingBody && !flow.isStarved
    }

    /// Returns the error for a stalled transfer.
    private func stallFailure(_ chain: RequestChain) -> URLError? {
        guard let limit = chain.configuration.stallLimit else { return nil }
        return chain.failure(
            .timedOut,
            "The transfer rate was below \(limit.bytesPerSecond) bytes per second, averaged over \(limit.duration) "
                + "seconds.")
    }
}
