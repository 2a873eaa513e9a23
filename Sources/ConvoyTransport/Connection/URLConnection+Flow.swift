import CCurl
import Foundation
import FoundationNetworking

/// Back-pressure: holding data back from the delegate, and resuming.
extension URLConnection {
    /// Notes what holds the response up, or no longer does. What is returned is for ``carryOut(_:)``.
    @discardableResult
    func updateFlow(_ event: TransferState.Event) -> TransferState.Action {
        defer { if exchange.stallMeter != nil { noteFlow() } }
        return exchange.flow.handle(event)
    }

    /// Does what a change of the flow requires. Not to be called from one of libcurl's callbacks.
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

    /// Whether libcurl has the current request.
    private var isWithLibcurl: Bool {
        switch phase {
        case .loading, .deciding, .following, .askingAboutCookies, .replacing: true
        case .initial, .waitingForDescriptor, .preparingTLS, .consulting, .storing, .ended: false
        }
    }

    /// There may be bytes of the request's body to send again.
    func feed() { carryOut(updateFlow(.fed)) }

    /// Whether the head of a response has come with which the server may have refused the rest of the request.
    var mayEndWithoutBody: Bool { exchange.head.isWhole && exchange.head.statusCode >= 300 }

    /// Lets libcurl go on as if bytes of the request's body were there. It then ends a transfer whose response is whole,
    /// which it does not notice while it is paused, or asks for the bytes again.
    func goOnWithoutBody() {
        if exchange.flow.isFree, !exchange.flow.isHeldBack { feed() }
    }

    /// Decodes bytes, and passes the result to the delegate until it suspends receiving.
    func deliver(
        with decoder: ContentDecoder,
        _ decode: (ContentDecoder, (UnsafeRawBufferPointer) -> Bool) throws -> Void
    ) {
        do {
            try decode(decoder) { block in
                delegate?.connection(self, didReceive: block)
                return exchange.flow.isFree && !isCancelled
            }
            if decoder.hasPending { updateFlow(.kept) }
        } catch {
            exchange.response.failure = decodingFailure(error)
        }
    }

    /// Passes on what the decoder has kept.
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
