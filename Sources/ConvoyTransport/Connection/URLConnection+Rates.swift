import ConvoySupport
import Foundation

/// Holding a transfer to its rate limits, and noticing that it has stalled. All on the network thread.
extension URLConnection {
    // MARK: Receiving

    /// Whether bytes of the response may be delivered. If not, the limit holds the transfer up until they may.
    ///
    /// Without any limit this costs a look at two places in memory.
    func mayReceive(_ count: Int) -> Bool {
        guard receiveThrottle != nil || RateLimit.shared.isLimiting else { return true }
        let throttle = receiveThrottle ?? makeReceiveThrottle()
        guard throttle.admits(count) else {
            updateFlow(.hold(.rate))
            return false
        }
        throttle.use(count)
        return true
    }

    private func makeReceiveThrottle() -> TransferThrottle {
        let throttle = TransferThrottle(limits: configuration.receiveRateLimits + [.shared], thread: thread) {
            [weak self] in
            guard let self else { return }
            carryOut(updateFlow(.lift(.rate)))
        }
        receiveThrottle = throttle
        return throttle
    }

    // MARK: Sending

    /// How many bytes of the request's body may be sent now, of at most so many; nil if none may. Then the transfer is
    /// resumed when some may.
    func sendingAllowance(atMost most: Int) -> Int? {
        guard sendThrottle != nil || RateLimit.sharedForSending.isLimiting else { return most }
        let throttle = sendThrottle ?? makeSendThrottle()
        let count = TransferThrottle.blockSize(
            under: configuration.sendRateLimits + [.sharedForSending], atMost: most)
        return throttle.admits(count) ? count : nil
    }

    private func makeSendThrottle() -> TransferThrottle {
        let throttle = TransferThrottle(limits: configuration.sendRateLimits + [.sharedForSending], thread: thread) {
            [weak self] in
            self?.feed()
        }
        sendThrottle = throttle
        return throttle
    }

    /// Notes how many bytes of the request's body were sent; 0 at its end.
    func noteSent(_ count: Int, of length: Int64?) {
        sendThrottle?.use(count)
        guard let meter = exchange.stallMeter else { return }
        meter.value.add(count)
        exchange.isSendingBody = count > 0 && exchange.sentBytes + Int64(count) != length
        noteFlow()
    }

    // MARK: Both

    /// Prepares for a request, and returns how many bytes are to be received at a time.
    func prepareLimits() -> Int {
        let isLimited = !configuration.limits.isEmpty
        if isLimited, receiveThrottle == nil, !configuration.receiveRateLimits.isEmpty { _ = makeReceiveThrottle() }
        if isLimited, sendThrottle == nil, !configuration.sendRateLimits.isEmpty { _ = makeSendThrottle() }
        guard isLimited || RateLimit.shared.isLimiting else { return configuration.receiveBufferSize }
        return TransferThrottle.blockSize(
            under: configuration.receiveRateLimits + [.shared], atMost: configuration.receiveBufferSize)
    }

    /// Gives up what the limits have granted, and the places in their lines.
    func leaveLimits() {
        receiveThrottle?.leave()
        receiveThrottle = nil
        sendThrottle?.leave()
        sendThrottle = nil
    }

    // MARK: Stalls

    /// Begins to watch for a stall, if there is a limit.
    func startStallMeter(at now: MonotonicTime) {
        exchange.stallMeter = configuration.stallLimit.flatMap { StallMeter($0, at: now) }.map(Reference.init)
    }

    /// Notes a change of what the transfer waits for.
    func noteFlow() {
        guard let meter = exchange.stallMeter, let runLoop = thread.runLoop else { return }
        meter.value.setCounting(couldMove, at: NetworkRunLoop.now)
        if let check = meter.value.nextCheck { handle?.schedule(at: check, on: runLoop) }
    }

    /// Whether a body could move if the other side did its part.
    private var couldMove: Bool {
        switch phase {
        case .loading, .following, .replacing: break
        case .initial, .waitingForDescriptor, .preparingTLS, .deciding, .consulting, .askingAboutCookies, .storing, .ended:
            return false
        }
        guard exchange.replay == nil, !exchange.flow.isHeldBack, exchange.flow.isFree else { return false }
        return exchange.head.isWhole || exchange.isSendingBody && !exchange.flow.isStarved
    }

    /// The error of a transfer that has stalled.
    var stallFailure: URLError? {
        guard let limit = configuration.stallLimit else { return nil }
        return failure(
            .timedOut,
            "Fewer than \(limit.bytesPerSecond) bytes a second were transferred, on average over \(limit.duration) "
                + "seconds.")
    }

    /// A value that few transfers have, so that the others need no room for it.
    final class Reference<Value> {
        @exclusivity(unchecked) var value: Value
        init(_ value: Value) { self.value = value }
    }
}
