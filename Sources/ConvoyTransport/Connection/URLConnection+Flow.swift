import CCurl
import Foundation
import FoundationNetworking

/// Back-pressure: what waits for the delegate, and how it goes on.
extension URLConnection {
    /// Goes on with what waited, in either direction.
    func resumeFlow() {
        guard isHeldBack || !isStarved else { return }
        switch phase {
        case .loading, .following:
            noteActivity()
            if let decoder, decoder.hasPending, !isReceivingSuspended { deliver(with: decoder) { try $0.resume(into: $1) } }
            guard let handle else { return }
            if let failure = pendingFailure {
                thread.multi?.stop(handle)
                return fail(failure)
            }
            if isReceivingSuspended || decoder?.hasPending == true { return }
            isHeldBack = false
            if let result = heldResult {
                // libcurl is done with it; only decoded bytes were still to be delivered.
                heldResult = nil
                return finish(result, handle)
            }
            thread.multi?.setPaused(handle, sending: isStarved)
        case .initial, .waitingForDescriptor, .deciding, .ended: return
        }
    }

    /// The response has come before the request's body was sent.
    func goOnWithoutBody() {
        guard isStarved else { return }
        isStarved = false
        resumeFlow()
    }

    /// Decodes bytes, and hands the result to the delegate until it has had enough for now.
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
