import ConvoySupport
import Foundation
import FoundationNetworking

/// Pauses a transfer whose request must not be sent twice. All members are used on the network thread, outside
/// libcurl's callbacks.
extension RequestChain {
    package func pause() -> Bool {
        guard !RequestRules.isIdempotent(firstRequest.method), mayHaveBeenSent else {
            stop()
            return false
        }
        wasPaused = true
        carryOut(updateFlow(.hold(.pause)))
        return true
    }

    package func resume() {
        guard step.flow.isPaused else { return }
        // Time spent paused does not count against the timeouts.
        network?.noteSending()
        carryOut(updateFlow(.lift(.pause)))
        if case .held(let address) = phase { return sendAfterPause(to: address) }
        if step.flow.hasKept { carryOut(updateFlow(.kept)) }
    }

    private func sendAfterPause(to address: HTTPAddress) {
        do throws(URLError) {
            try send(to: address)
        } catch {
            fail(error)
        }
    }

    /// Whether a server may have received part of the request, or of an earlier request that it redirected.
    private var mayHaveBeenSent: Bool {
        if followedRedirects > configuration.continuation?.followed ?? 0 { return true }
        return switch phase {
        case .initial, .preparingTLS, .consulting, .waitingForDescriptor: false
        case .held, .storing, .ended: true
        case .loading, .draining, .deciding, .askingCookies: network?.handle.mayHaveBeenSent ?? true
        }
    }

    /// Returns the error of a transfer that was paused, which explains why a request whose connection was lost is not
    /// sent again.
    func afterPause(_ error: URLError) -> URLError {
        guard wasPaused, error.code == .networkConnectionLost, error.userInfo[URLError.nothingWasSentKey] == nil else {
            return error
        }
        return failure(
            error.code,
            "The connection was lost during or after a pause. The request is not sent again, because the server may have "
                + "processed it.",
            underlying: error.userInfo[NSUnderlyingErrorKey] as? any Error)
    }
}
