import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking

/// Rate limits and stall detection, all on the network thread.
extension URLConnection {
    // MARK: Receiving

    /// Returns whether bytes of the response may be delivered. If not, the transfer is held back until they may be.
    ///
    /// Without a limit, the check costs two memory reads.
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

    /// Returns the number of bytes of the request's body, at most `most`, that may be sent now; nil if none may be
    /// sent, in which case the transfer resumes automatically.
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

    /// Records the number of bytes of the request's body that were sent; 0 at its end.
    func noteSent(_ count: Int, of length: Int64?) {
        sendThrottle?.use(count)
        guard let meter = exchange.stallMeter else { return }
        meter.value.add(count)
        exchange.isSendingBody = count > 0 && exchange.sentBytes + Int64(count) != length
        noteFlow()
    }

    // MARK: Sending and receiving

    /// Prepares the limits for a request. Returns the size of the receive buffer.
    func prepareLimits() -> Int {
        let isLimited = configuration.settings.limits != nil
        if isLimited, receiveThrottle == nil, !configuration.receiveRateLimits.isEmpty { _ = makeReceiveThrottle() }
        if isLimited, sendThrottle == nil, !configuration.sendRateLimits.isEmpty { _ = makeSendThrottle() }
        var size = configuration.receiveBufferSize
        // A full read counts as one share of a turn. If no other transfer is running, larger reads are faster.
        if size > TurnShares.share, thread.multi?.isIdle != true { size = TurnShares.share }
        guard isLimited || RateLimit.shared.isLimiting else { return size }
        return TransferThrottle.blockSize(under: configuration.receiveRateLimits + [.shared], atMost: size)
    }

    /// Returns unused allowances, and leaves the queues of the limits.
    func leaveLimits() {
        receiveThrottle?.leave()
        receiveThrottle = nil
        sendThrottle?.leave()
        sendThrottle = nil
    }

    // MARK: Stalls

    /// Starts stall detection if a stall limit is set.
    func startStallMeter(at now: MonotonicTime) {
        guard let limit = configuration.stallLimit else { return }
        exchange.stallMeter = StallMeter(limit, at: now).map(Reference.init)
    }

    /// Records that the transfer has started or stopped waiting for this side.
    func noteFlow() {
        guard let meter = exchange.stallMeter, let runLoop = thread.runLoop else { return }
        meter.value.setCounting(couldMove, at: NetworkRunLoop.now)
        if let check = meter.value.nextCheck { handle?.schedule(at: check, on: runLoop) }
    }

    /// Whether nothing on this side prevents bytes of a body from flowing.
    private var couldMove: Bool {
        switch phase {
        case .loading, .following, .replacing: break
        case .initial, .waitingForDescriptor, .preparingTLS, .deciding, .consulting, .askingAboutCookies, .held, .storing,
            .ended:
            return false
        }
        guard exchange.replay == nil, !exchange.flow.isHeldBack, exchange.flow.isFree else { return false }
        return exchange.head.isWhole || exchange.isSendingBody && !exchange.flow.isStarved
    }

    /// The error for a stalled transfer.
    var stallFailure: URLError? {
        guard let limit = configuration.stallLimit else { return nil }
        return failure(
            .timedOut,
            "The transfer rate was below \(limit.bytesPerSecond) bytes per second, averaged over \(limit.duration) "
                + "seconds.")
    }

    /// A box for a value that few transfers have, so that other transfers do not reserve space for it.
    final class Reference<Value> {
        @exclusivity(unchecked) var value: Value
        init(_ value: Value) { self.value = value }
    }
}

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

    /// Converts seconds to nanoseconds. Returns 0, meaning no limit, for values that are not a useful limit.
    private static func nanoseconds(_ seconds: TimeInterval) -> MonotonicTime {
        seconds > 0 && seconds < 1e9 ? max(1, UInt64(seconds * 1e9)) : 0
    }

    /// The interval for checking a transfer that waits for bytes of its body while its response may already be
    /// complete.
    static var starvationCheckInterval: MonotonicTime { 10_000_000 }

    /// Records that a byte of a body has been transferred.
    func noteActivity() { exchange.times.lastActivity = thread.turnTime ?? exchange.times.lastActivity }

    /// Records that a byte of the request's body has been transferred, or that a pause has prevented the transfer.
    func noteSending() {
        noteActivity()
        exchange.times.lastSent = exchange.times.lastActivity
    }

    /// Records that a line of a head has arrived. Unless heads have a separate limit, only the first and the last line
    /// count; otherwise a server that sends a line now and then would never time out.
    func noteHeadLine(isFirst: Bool) {
        if isFirst || exchange.times.headLimit > 0 { noteActivity() }
    }

    var nextDeadline: MonotonicTime? {
        let times = exchange.times
        var next = MonotonicTime.max
        if times.idleLimit > 0 { next = times.lastActivity + times.idleLimit }
        if times.headLimit > 0, !exchange.head.isWhole { next = min(next, times.lastSent + times.headLimit) }
        if let check = exchange.stallMeter?.value.nextCheck { next = min(next, check) }
        if let deadline = exchange.response.rest?.value.deadline { next = min(next, deadline) }
        return next == .max ? nil : next
    }

    func easyHandleTimerDidFire(_ handle: EasyHandle) {
        guard let runLoop = thread.runLoop else { return }
        let now = runLoop.turnTime
        if let rest = exchange.response.rest, isRestOver(rest, at: now) { return giveUpRest(handle) }
        // Time during which this side holds the transfer back does not count against the server.
        if exchange.flow.isHeldBack || exchange.flow.isStarved && !mayEndWithoutBody { exchange.times.lastActivity = now }
        if exchange.flow.isStarved { exchange.times.lastSent = now }
        if exchange.flow.isPaused { noteSending() }
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
            // Set the timer first, because the next call may end the transfer.
            handle.schedule(at: min(nextDeadline ?? .max, now + Self.starvationCheckInterval), on: runLoop)
            return goOnWithoutBody()
        }
        guard let deadline = nextDeadline else { return }
        guard now >= deadline else { return handle.schedule(at: deadline, on: runLoop) }
        // An HTTP/2 connection may be dead without any sign. Close it, so that the next request does not wait for it as
        // well.
        thread.multi?.stop(handle, closing: true)
        let times = exchange.times
        let isIdle = times.idleLimit > 0 && now >= times.lastActivity + times.idleLimit
        let seconds = Double(isIdle ? times.idleLimit : times.headLimit) / 1e9
        fail(
            failure(
                .timedOut,
                isIdle
                    ? "No data was transferred for \(seconds) seconds."
                    : "The response head was not complete after \(seconds) seconds."))
    }
}

/// Shares the turns of the run loop with other transfers.
extension URLConnection: RestingTransfer {
    var isResting: Bool { exchange.flow.holds.contains(.turn) }

    func endRest(in multi: MultiHandle) { carryOut(updateFlow(.lift(.turn))) }
}

/// Waits for a file descriptor.
extension URLConnection: DescriptorWaiter {
    /// Returns whether the transfer failed for lack of a descriptor before any of it was sent.
    func lacksDescriptor(_ handle: EasyHandle) -> Bool {
        guard let multi = thread.multi, !exchange.head.hasBegun, handle.long(CURLINFO_REQUEST_SIZE) == 0 else {
            return false
        }
        return multi.descriptorShortages != exchange.earlierShortages || DescriptorLimit.isSystemShort
    }

    /// Queues the transfer until another one has ended.
    func waitForDescriptor() {
        guard let multi = thread.multi else { return }
        if exchange.waitsSince == 0 { exchange.waitsSince = multi.runLoop.turnTime }
        guard multi.descriptorQueue.mayWait(since: exchange.waitsSince) else {
            return fail(failure(.cannotLoadFromNetwork, "No file descriptor is available for a connection."))
        }
        phase = .waitingForDescriptor
        forgetTransaction()
        exchange.body?.stop()
        exchange.body = nil
        if let handle { multi.giveBack(handle) }
        handle = nil
        multi.descriptorQueue.append(self)
    }

    var waitsForDescriptorSince: MonotonicTime { exchange.waitsSince }

    func tryAgainForDescriptor() {
        guard case .waitingForDescriptor = phase else { return }
        load(Exchange(again: exchange))
    }
}

/// Backpressure: pauses and resumes the flow of bytes.
extension URLConnection {
    /// Updates the state of the flow. Pass the result to ``carryOut(_:)``.
    @discardableResult
    func updateFlow(_ event: TransferState.Event) -> TransferState.Action {
        defer { if exchange.stallMeter != nil { noteFlow() } }
        return exchange.flow.handle(event)
    }

    /// Executes an action of the flow. Must not be called from a libcurl callback.
    func carryOut(_ action: TransferState.Action) {
        switch action {
        case .nothing, .stopped: return
        case .drain: if exchange.replay != nil { pump() } else { drain() }
        case .end:
            if let handle, let result = exchange.heldResult.take() { end(with: result, handle) }
        case .run(let receiving, let sending):
            if exchange.replay != nil { return pump() }
            guard let handle, isWithLibcurl else { return }
            noteActivity()
            thread.multi?.setPaused(handle, receiving: !receiving, sending: !sending)
        }
    }

    var isSuspended: Bool { exchange.flow.holds.contains(.delegate) }

    /// Whether libcurl is processing the current request.
    private var isWithLibcurl: Bool {
        switch phase {
        case .loading, .deciding, .following, .askingAboutCookies, .replacing: true
        case .initial, .waitingForDescriptor, .preparingTLS, .consulting, .held, .storing, .ended: false
        }
    }

    /// Records that bytes of the request's body are available again.
    func feed() { carryOut(updateFlow(.fed)) }

    /// Whether a complete head has arrived with which the server may have rejected the rest of the request.
    var mayEndWithoutBody: Bool { exchange.head.isWhole && exchange.head.statusCode >= 300 }

    /// Resumes sending although no bytes are available. libcurl then ends a transfer whose response is complete, which
    /// it does not detect while paused, or requests the bytes again.
    func goOnWithoutBody() {
        if exchange.flow.isFree, !exchange.flow.isHeldBack { feed() }
    }

    /// Decodes bytes and passes the result to the delegate until it suspends receiving.
    func deliver(
        with decoder: ContentDecoder,
        _ decode: (ContentDecoder, (UnsafeRawBufferPointer) -> Bool) throws -> Void
    ) {
        do {
            try decode(decoder) { block in
                delegate?.connection(self, didReceive: block)
                charge(block.count)
                return exchange.flow.isFree && !isCancelled
            }
            if decoder.hasPending { updateFlow(.kept) }
        } catch {
            exchange.response.failure = decodingFailure(error)
        }
    }

    /// Counts bytes that were decoded or replayed, and holds the rest back if the transfer has used up its share of the
    /// turn.
    func charge(_ count: Int) {
        guard let shares = thread.multi?.shares, shares.charge(count, to: &use), !isResting else { return }
        updateFlow(.hold(.turn))
        shares.noteRest(of: self)
    }

    /// Delivers the decoded bytes that the decoder still holds.
    func drain() {
        guard let decoder = exchange.response.decoder else { return carryOut(updateFlow(.drained)) }
        if decoder.hasPending { deliver(with: decoder) { try $0.resume(into: $1) } }
        if let failure = exchange.response.failure {
            if let handle { thread.multi?.stop(handle) }
            return fail(failure)
        }
        if !decoder.hasPending { carryOut(updateFlow(.drained)) }
    }

    func decodingFailure(_ error: any Error) -> URLError {
        if let error = error as? DecodingFailure, case .expandsTooMuch = error.reason {
            return failure(.dataLengthExceedsMaximum, "\(error)", underlying: error)
        }
        return failure(.cannotDecodeContentData, "\(error)", underlying: error)
    }
}
