import CCurl
import Foundation
import FoundationNetworking

/// Back-pressure: holding data back from the delegate, and resuming.
extension URLConnection {
    /// Resumes a transfer that was held back, in either direction.
    func resumeFlow() {
        guard isHeldBack || !isStarved else { return }
        if replay != nil { return pump() }
        switch phase {
        case .loading, .following, .replacing:
            noteActivity()
            if let decoder, decoder.hasPending, !isReceivingSuspended { deliver(with: decoder) { try $0.resume(into: $1) } }
            guard let handle else { return }
            if let failure = pendingFailure {
                thread.multi?.stop(handle)
                return fail(failure)
            }
            if isReceivingSuspended || decoder?.hasPending == true || awaitsReceiving {
                // What is to be received waits; what is to be sent need not.
                if body != nil, !isStarved { thread.multi?.setPaused(handle, receiving: true, sending: false) }
                return
            }
            isHeldBack = false
            if let result = heldResult {
                // libcurl has finished; only decoded bytes were still to be delivered.
                heldResult = nil
                return finish(result, handle)
            }
            thread.multi?.setPaused(handle, receiving: false, sending: isStarved)
        case .initial, .waitingForDescriptor, .preparingTLS, .deciding, .consulting, .askingAboutCookies, .storing, .ended:
            return
        }
    }

    /// Whether the head of a response has come with which the server may have refused the rest of the request.
    var mayEndWithoutBody: Bool { head.isWhole && head.statusCode >= 300 }

    /// Lets libcurl go on as if bytes of the request's body were there. It then ends a transfer whose response is whole,
    /// which it does not notice while it is paused, or asks for the bytes again.
    func goOnWithoutBody() {
        guard isStarved, !isHeldBack, !isReceivingSuspended, let handle else { return }
        switch phase {
        case .loading, .following, .replacing:
            isStarved = false
            thread.multi?.setPaused(handle, receiving: false, sending: false)
        case .initial, .waitingForDescriptor, .preparingTLS, .deciding, .consulting, .askingAboutCookies, .storing,
            .ended:
            return
        }
    }

    /// Decodes bytes, and passes the result to the delegate until it suspends receiving.
    func deliver(
        with decoder: ContentDecoder,
        _ decode: (ContentDecoder, (UnsafeRawBufferPointer) -> Bool) throws -> Void
    ) {
        do {
            try decode(decoder) { block in
                delegate?.connection(self, didReceive: block)
                return !isReceivingSuspended && !isCancelled
            }
            if decoder.hasPending { isHeldBack = true }
        } catch {
            pendingFailure = decodingFailure(error)
        }
    }

    func decodingFailure(_ error: any Error) -> URLError {
        if let error = error as? DecodingFailure, case .expandsTooMuch = error.reason {
            return failure(.dataLengthExceedsMaximum, "\(error)", underlying: error)
        }
        return failure(.cannotDecodeContentData, "\(error)", underlying: error)
    }
}
