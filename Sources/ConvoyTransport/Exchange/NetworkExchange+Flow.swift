import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking

/// The bytes of bodies: back-pressure and rate limits. Called by libcurl.
extension NetworkExchange {
    // MARK: Receiving

    /// Takes bytes of the body, with chunked framing removed but the content encoding in place.
    func take(_ bytes: UnsafeRawBufferPointer) -> EasyHandle.Reception {
        guard let chain, !chain.isCancelled, chain.step.failure == nil else { return .abort }
        switch chain.phase {
        case .deciding, .askingCookies: return refuse(chain)
        case .draining:
            // Reading a short remainder is cheaper than opening a new connection.
            chain.step.cacheWriter?.write(bytes)
            receiveThrottle?.charge(bytes.count)
            stallMeter?.add(bytes.count)
            response.received += Int64(bytes.count)
            endIfComplete()
            return rest?.take(bytes.count) == false ? .abort : .taken
        case .loading:
            deliverHeldHead(chain)
            guard chain.step.flow.isFree, !chain.step.flow.hasKept, mayReceive(bytes.count, chain) else {
                return refuse(chain)
            }
            if rest?.take(bytes.count) == false { return .abort }
            noteActivity()
            stallMeter?.add(bytes.count)
            response.received += Int64(bytes.count)
            endIfComplete()
            return chain.receive(bytes) ? .taken : .abort
        case .initial, .preparingTLS, .consulting, .waitingForDescriptor, .held, .storing, .ended: return .abort
        }
    }

    /// Ends the transfer at the end of this turn if the response is complete, even if the request's body has not been
    /// sent: the server need not read the body (RFC 9113, section 8.1). libcurl would wait until it is sent.
    func endIfComplete() {
        guard body != nil, isResponseComplete else { return }
        multi.endAfterTurn(handle)
    }

    /// Leaves the bytes with libcurl until the holds are removed.
    private func refuse(_ chain: RequestChain) -> EasyHandle.Reception {
        chain.updateFlow(.refused)
        return .notNow
    }

    // MARK: Sending

    /// Fills a buffer with bytes of the request's body.
    func fill(_ buffer: UnsafeMutableRawBufferPointer) -> EasyHandle.Supply {
        guard let chain, let body, !chain.isCancelled else { return .abort }
        if chain.step.flow.isPaused { return .notNow }
        guard let allowance = sendingAllowance(atMost: buffer.count, chain) else { return starve(chain) }
        switch body.fill(UnsafeMutableRawBufferPointer(rebasing: buffer[..<allowance])) {
        case .failed(let error):
            chain.step.failure = error
            return .abort
        case .notNow: return starve(chain)
        case .bytes(let count):
            noteSending()
            noteSent(count, of: body.length)
            if count == 0, let clock = handle.clock, clock.bodySent == nil { clock.bodySent = NetworkRunLoop.now }
            if count > 0 {
                sentBytes += Int64(count)
                if let clock = handle.clock, sentBytes == body.length { clock.bodySent = NetworkRunLoop.now }
                chain.delegate?.connection(chain, didSendBodyData: count, total: sentBytes, totalExpected: body.length)
            }
            return .bytes(count)
        }
    }

    /// Pauses sending until more bytes are available.
    private func starve(_ chain: RequestChain) -> EasyHandle.Supply {
        chain.updateFlow(.starved)
        if mayEndWithoutBody {
            handle.schedule(at: multi.runLoop.turnTime + Self.starvationCheckInterval, on: multi.runLoop)
        }
        return .notNow
    }

    /// The interval for checking a transfer that waits for bytes of its body while its response may already be
    /// complete.
    static var starvationCheckInterval: MonotonicTime { 10_000_000 }

    /// Whether a complete head has arrived with which the server may have rejected the rest of the request.
    var mayEndWithoutBody: Bool { isHeadWhole && response.head.statusCode >= 300 }

    /// Resumes sending although no bytes are available. libcurl then ends a transfer whose response is complete, which
    /// it does not detect while paused, or requests the bytes again.
    func goOnWithoutBody() {
        guard let chain else { return }
        if chain.step.flow.isFree, !chain.step.flow.isHeldBack { chain.feed() }
    }

    // MARK: Pausing

    /// Resumes receiving, sending, or both, and pauses the rest. Must not be called from a libcurl callback.
    func run(receiving: Bool, sending: Bool) {
        noteActivity()
        multi.setPaused(handle, receiving: !receiving, sending: !sending)
    }

    /// Whether the exchange can end without waiting for its receiver or for a descriptor. One that has already waited for
    /// a descriptor lacks its connection until it has sent something.
    var canEnd: Bool {
        guard let chain, !chain.step.flow.holds.contains(.delegate) else { return false }
        return chain.step.waitsSince == 0 || handle.long(CURLINFO_REQUEST_SIZE) > 0
    }

    // MARK: Rate limits

    /// Prepares the limits for a request. Returns the size of the receive buffer.
    func prepareLimits(of chain: RequestChain) -> Int {
        let configuration = chain.configuration
        let isLimited = configuration.settings.limits != nil
        if isLimited, receiveThrottle == nil, !configuration.receiveRateLimits.isEmpty { _ = makeReceiveThrottle(chain) }
        if isLimited, sendThrottle == nil, !configuration.sendRateLimits.isEmpty { _ = makeSendThrottle(chain) }
        var size = configuration.receiveBufferSize
        // A full read counts as one share of a turn. If no other transfer is running, larger reads are faster.
        if size > TurnShares.share, !multi.isIdle { size = TurnShares.share }
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

    /// Returns whether bytes of the response may be delivered. If not, the transfer is held back until they may be.
    ///
    /// Without a limit, the check costs two memory reads.
    private func mayReceive(_ count: Int, _ chain: RequestChain) -> Bool {
        guard receiveThrottle != nil || RateLimit.shared.isLimiting else { return true }
        let throttle = receiveThrottle ?? makeReceiveThrottle(chain)
        guard throttle.admits(count) else {
            chain.updateFlow(.hold(.rate))
            return false
        }
        throttle.use(count)
        return true
    }

    private func makeReceiveThrottle(_ chain: RequestChain) -> TransferThrottle {
        let throttle = TransferThrottle(limits: chain.configuration.receiveRateLimits + [.shared], thread: chain.thread) {
            [weak chain] in
            guard let chain else { return }
            chain.carryOut(chain.updateFlow(.lift(.rate)))
        }
        receiveThrottle = throttle
        return throttle
    }

    /// Returns the number of bytes of the request's body, at most `most`, that may be sent now; nil if none may be
    /// sent, in which case the transfer resumes automatically.
    private func sendingAllowance(atMost most: Int, _ chain: RequestChain) -> Int? {
        guard sendThrottle != nil || RateLimit.sharedForSending.isLimiting else { return most }
        let throttle = sendThrottle ?? makeSendThrottle(chain)
        let count = TransferThrottle.blockSize(
            under: chain.configuration.sendRateLimits + [.sharedForSending], atMost: most)
        return throttle.admits(count) ? count : nil
    }

    private func makeSendThrottle(_ chain: RequestChain) -> TransferThrottle {
        let throttle = TransferThrottle(
            limits: chain.configuration.sendRateLimits + [.sharedForSending], thread: chain.thread
        ) { [weak chain] in chain?.feed() }
        sendThrottle = throttle
        return throttle
    }

    /// Records the number of bytes of the request's body that were sent; 0 at its end.
    private func noteSent(_ count: Int, of length: Int64?) {
        sendThrottle?.use(count)
        guard stallMeter != nil else { return }
        stallMeter?.add(count)
        isSendingBody = count > 0 && sentBytes + Int64(count) != length
        noteFlowIfMeasured()
    }
}
