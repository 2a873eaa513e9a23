import CCurl
import Foundation
import FoundationNetworking

/// Back-pressure: holding data back from the delegate, and resuming.
extension URLConnection {
    /// Does what a change of the flow requires. Not to be called from one of libcurl's callbacks.
    func carryOut(_ action: TransferState.Action) {
        switch action {
        case .nothing, .stopped: return
        case .drain: if replay != nil { pump() } else { drain() }
        case .end:
            if let handle, let result = heldResult.take() { end(with: result, handle) }
        case .run(let receiving, let sending):
            if replay != nil { return pump() }
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
    func feed() { carryOut(flow.handle(.fed)) }

    /// Whether the head of a response has come with which the server may have refused the rest of the request.
    var mayEndWithoutBody: Bool { head.isWhole && head.statusCode >= 300 }

    /// Lets libcurl go on as if bytes of the request's body were there. It then ends a transfer whose response is whole,
    /// which it does not notice while it is paused, or asks for the bytes again.
    func goOnWithoutBody() {
        if flow.isFree, !flow.isHeldBack { feed() }
    }

    /// Decodes bytes, and passes the result to the delegate until it suspends receiving.
    func deliver(
        with decoder: ContentDecoder,
        _ decode: (ContentDecoder, (UnsafeRawBufferPointer) -> Bool) throws -> Void
    ) {
        do {
            try decode(decoder) { block in
                delegate?.connection(self, didReceive: block)
                return flow.isFree && !isCancelled
            }
            if decoder.hasPending { _ = flow.handle(.kept) }
        } catch {
            pendingFailure = decodingFailure(error)
        }
    }

    /// Passes on what the decoder has kept.
    func drain() {
        guard let decoder else { return carryOut(flow.handle(.drained)) }
        if decoder.hasPending { deliver(with: decoder) { try $0.resume(into: $1) } }
        if let failure = pendingFailure {
            if let handle { thread.multi?.stop(handle) }
            return fail(failure)
        }
        if !decoder.hasPending { carryOut(flow.handle(.drained)) }
    }

    func decodingFailure(_ error: any Error) -> URLError {
        if let error = error as? DecodingFailure, case .expandsTooMuch = error.reason {
            return failure(.dataLengthExceedsMaximum, "\(error)", underlying: error)
        }
        return failure(.cannotDecodeContentData, "\(error)", underlying: error)
    }
}
