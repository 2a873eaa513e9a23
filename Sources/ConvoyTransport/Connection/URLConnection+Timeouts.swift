import ConvoySupport
import Foundation
import FoundationNetworking

/// When bytes last moved, and how long none may move. In nanoseconds of the run loop's clock.
struct TransferTimes {
    var lastActivity: MonotonicTime = 0
    /// When the request began, or the last byte of its body was sent.
    var lastSent: MonotonicTime = 0
    /// 0 for no limit.
    var idleLimit: MonotonicTime = 0
    /// 0 for no separate limit.
    var headLimit: MonotonicTime = 0
    /// When the rest of a response is given up that is not needed; 0 without one.
    var restDeadline: MonotonicTime = 0
}

/// The timeouts of a transfer: one timer, which is not moved on each byte. When it fires, it checks when the last byte
/// moved, and is set again.
extension URLConnection {
    func startTimer() {
        guard let runLoop = thread.runLoop else { return }
        let now = runLoop.turnTime
        exchange.times = TransferTimes(
            lastActivity: now, lastSent: now, idleLimit: Self.nanoseconds(exchange.request.timeoutInterval),
            headLimit: Self.nanoseconds(configuration.timeoutIntervalForHead ?? 0))
        startStallMeter(at: now)
        if let deadline = nextDeadline { handle?.schedule(at: deadline, on: runLoop) }
    }

    /// 0, which means no limit, for values that are not a useful limit.
    private static func nanoseconds(_ seconds: TimeInterval) -> MonotonicTime {
        seconds > 0 && seconds < 1e9 ? max(1, UInt64(seconds * 1e9)) : 0
    }

    /// How often a transfer is looked at that waits for bytes of its request's body, while its response may be whole.
    static var starvationCheckInterval: MonotonicTime { 10_000_000 }

    /// Notes that a byte of a body has moved.
    func noteActivity() { exchange.times.lastActivity = thread.runLoop?.turnTime ?? exchange.times.lastActivity }

    func noteSending() {
        noteActivity()
        exchange.times.lastSent = exchange.times.lastActivity
    }

    /// Notes that a line of a head has come. A server that sends a line now and then would never time out, so only the
    /// first and the last line of a head count, unless heads have a separate limit.
    func noteHeadLine(isFirst: Bool) {
        if isFirst || exchange.times.headLimit > 0 { noteActivity() }
    }

    private var nextDeadline: MonotonicTime? {
        let times = exchange.times
        let idle = times.idleLimit > 0 ? times.lastActivity + times.idleLimit : nil
        let head = times.headLimit > 0 && !exchange.head.isWhole ? times.lastSent + times.headLimit : nil
        let stall = exchange.stallMeter?.value.nextCheck
        let rest = times.restDeadline > 0 ? times.restDeadline : nil
        guard idle != nil || head != nil || stall != nil || rest != nil else { return nil }
        return min(idle ?? .max, head ?? .max, stall ?? .max, rest ?? .max)
    }

    func easyHandleTimerDidFire(_ handle: EasyHandle) {
        guard let runLoop = thread.runLoop else { return }
        let now = runLoop.turnTime
        if isRestUnneeded, let deadline = nextDeadline, now >= deadline { return giveUpRest(handle) }
        // Time in which this side holds the transfer back does not count against the server.
        if exchange.flow.isHeldBack || exchange.flow.isStarved && !mayEndWithoutBody { exchange.times.lastActivity = now }
        if exchange.flow.isStarved { exchange.times.lastSent = now }
        switch phase {
        case .deciding, .askingAboutCookies, .storing: exchange.times.lastActivity = now
        default: break
        }
        if let meter = exchange.stallMeter {
            meter.value.advance(to: now)
            if meter.value.isStalled, let stallFailure {
                thread.multi?.stop(handle)
                return fail(stallFailure)
            }
        }
        let isWaitingForEnd = exchange.flow.isStarved && mayEndWithoutBody
        if isWaitingForEnd, nextDeadline.map({ now < $0 }) ?? true {
            // First the timer: the transfer may end in this.
            handle.schedule(at: min(nextDeadline ?? .max, now + Self.starvationCheckInterval), on: runLoop)
            return goOnWithoutBody()
        }
        guard let deadline = nextDeadline else { return }
        guard now >= deadline else { return handle.schedule(at: deadline, on: runLoop) }
        thread.multi?.stop(handle)
        let times = exchange.times
        let isIdle = times.idleLimit > 0 && now >= times.lastActivity + times.idleLimit
        let seconds = Double(isIdle ? times.idleLimit : times.headLimit) / 1e9
        fail(
            failure(
                .timedOut,
                isIdle
                    ? "No data was transferred for \(seconds) seconds."
                    : "The head of the response was incomplete after \(seconds) seconds."))
    }
}
