import ConvoySupport
import Foundation
import FoundationNetworking

/// Back-pressure: holds and resumes the flow of bytes, and passes them to the delegate.
extension RequestChain {
    /// Updates the state of the flow. Pass the result to ``carryOut(_:)``.
    @discardableResult
    func updateFlow(_ event: TransferState.Event) -> TransferState.Action {
        defer { network?.noteFlowIfMeasured() }
        return step.flow.handle(event)
    }

    /// Executes an action of the flow. Must not be called from a libcurl callback.
    func carryOut(_ action: TransferState.Action) {
        switch action {
        case .nothing, .stopped: return
        case .drain: if let stored = step.stored { stored.pump(self) } else { drain() }
        case .end: network?.endHeldBack()
        case .run(let receiving, let sending):
            if let stored = step.stored { return stored.pump(self) }
            if isWithLibcurl { network?.run(receiving: receiving, sending: sending) }
        }
    }

    /// Whether libcurl is processing the current request.
    private var isWithLibcurl: Bool {
        switch phase {
        case .loading, .draining, .deciding, .askingCookies: true
        case .initial, .preparingTLS, .consulting, .waitingForDescriptor, .held, .storing, .ended: false
        }
    }

    /// Whether the body of a response that is not discarded may be arriving.
    var isLoading: Bool {
        if case .loading = phase { true } else { false }
    }

    /// Records that bytes of the request's body are available again.
    func feed() { carryOut(updateFlow(.fed)) }

    // MARK: The body

    /// Limits the rest of an error response; see ``Connection/limitBodyOfError()``. Only for the delegate's methods.
    package func limitBodyOfError() {
        if isLoading, step.stored == nil { network?.limitRestOfError(self) }
    }

    /// Delivers bytes from the network. Returns false to abort the transfer with the pending failure.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        step.cacheWriter?.write(bytes)
        guard let decoder = step.decoder else {
            delegate?.connection(self, didReceive: bytes)
            return true
        }
        deliver(with: decoder) { try $0.decode(bytes, into: $1) }
        return step.failure == nil
    }

    /// Delivers bytes from the cache.
    func receiveStored(_ bytes: UnsafeRawBufferPointer) {
        if let decoder = step.decoder {
            deliver(with: decoder) { try $0.decode(bytes, into: $1) }
        } else {
            delegate?.connection(self, didReceive: bytes)
            charge(bytes.count)
        }
    }

    /// Creates a decoder for an encoded body. Partial bodies cannot be decoded. If the user set `Accept-Encoding`, the
    /// encoded bytes are delivered.
    func prepareToDecode(_ codings: [ContentCoding], of response: ResponseHead) throws(URLError) {
        guard !codings.isEmpty, response.statusCode != 206,
            step.header?.setsAcceptEncoding != true || configuration.decodesUnaskedEncodings,
            step.request.method != "HEAD", response.statusCode != 304
        else { return }
        if let unknown = codings.first(where: { !$0.isKnown }) {
            guard configuration.refusesUnknownEncodings else { return }
            throw failure(.cannotDecodeContentData, "Unsupported content encoding: \(unknown).")
        }
        do {
            step.decoder = try ContentDecoder(codings, maximumExpansion: configuration.maximumExpansion)
        } catch {
            throw decodingFailure(error)
        }
    }

    /// Decodes bytes and passes the result to the delegate until it suspends receiving.
    private func deliver(
        with decoder: ContentDecoder,
        _ decode: (ContentDecoder, (UnsafeRawBufferPointer) -> Bool) throws -> Void
    ) {
        do {
            try decode(decoder) { block in
                delegate?.connection(self, didReceive: block)
                charge(block.count)
                return step.flow.isFree && !isCancelled
            }
            if decoder.hasPending { updateFlow(.kept) }
        } catch {
            step.failure = decodingFailure(error)
        }
    }

    /// Counts bytes that were decoded or came from the cache, and holds the rest back if the transfer has used up its
    /// share of the turn.
    private func charge(_ count: Int) {
        guard let shares = thread.multi?.shares, shares.charge(count, to: &use), !isResting else { return }
        updateFlow(.hold(.turn))
        shares.noteRest(of: self)
    }

    /// Delivers the decoded bytes that the decoder still holds.
    func drain() {
        guard let decoder = step.decoder else { return carryOut(updateFlow(.drained)) }
        if decoder.hasPending { deliver(with: decoder) { try $0.resume(into: $1) } }
        if let failure = step.failure {
            network?.stop()
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

/// Shares the turns of the run loop with other transfers.
extension RequestChain: RestingTransfer {
    var isResting: Bool { step.flow.holds.contains(.turn) }

    func endRest(in multi: MultiHandle) { carryOut(updateFlow(.lift(.turn))) }
}

/// Waits for a file descriptor.
extension RequestChain: DescriptorWaiter {
    /// Queues the transfer until another one has ended.
    func waitForDescriptor() {
        guard let multi = thread.multi else { return }
        if step.waitsSince == 0 { step.waitsSince = multi.runLoop.turnTime }
        guard multi.descriptorQueue.mayWait(since: step.waitsSince) else {
            return fail(failure(.cannotLoadFromNetwork, "No file descriptor is available for a connection."))
        }
        phase = .waitingForDescriptor
        forgetTransaction()
        network?.giveBack()
        network = nil
        multi.descriptorQueue.append(self)
    }

    var waitsForDescriptorSince: MonotonicTime { step.waitsSince }

    func tryAgainForDescriptor() {
        guard case .waitingForDescriptor = phase else { return }
        load(ChainStep(again: step))
    }
}
