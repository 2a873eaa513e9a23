import ConvoySupport
import Foundation

/// A reader that requests the pieces of a body as needed: the next piece while the previous one is being sent, and none
/// while the network accepts no bytes.
final class AsyncBodyReader: BodyReader {
    /// A box for the stream. No two threads use it concurrently, because `isAsking` serializes the calls.
    private struct Box: @unchecked Sendable { let stream: any AsyncBodyStream }

    private struct State {
        var pieces: [Data] = []
        /// The number of pieces that have arrived but have not been sent.
        var unsent = 0
        var isAsking = false
        var hasEnded = false
        var isStopped = false
        var failure: BodyProducerError?
        var isAwaited = false

        /// Returns whether to request the next piece now.
        mutating func mustAsk() -> Bool {
            guard !isAsking, !hasEnded, !isStopped, failure == nil, unsent <= 1 else { return false }
            isAsking = true
            return true
        }
    }

    private let box: Box
    private let wake: @Sendable () -> Void
    private let state = Locked(State())

    /// - Parameter wake: Wakes the transfer.
    init(stream: any AsyncBodyStream, wake: @escaping @Sendable () -> Void) {
        box = Box(stream: stream)
        self.wake = wake
    }

    func take() -> (chunks: [Data], hasEnded: Bool, failure: (any Error)?) {
        let (old, mustAsk) = state.withLock { state -> (State, Bool) in
            let mustAsk = state.mustAsk()
            state.isAwaited = !state.hasEnded && state.failure == nil
            defer { state.pieces = [] }
            return (state, mustAsk)
        }
        if mustAsk { ask() }
        return (old.pieces, old.hasEnded, old.failure)
    }

    /// Records that a piece has been sent. The next one is requested when the transfer needs more bytes.
    func noteTaken(_ count: Int) { state.withLock { $0.unsent -= 1 } }

    func stop() {
        state.withLock { state in
            state.isStopped = true
            state.isAwaited = false
            state.pieces = []
        }
        box.stream.stopSupplying()
    }

    private func ask() {
        box.stream.supply { [self] answer in
            let (wakes, asksAgain) = state.withLock { state -> (Bool, Bool) in
                state.isAsking = false
                switch answer {
                case .success(let piece?) where piece.isEmpty: return (false, state.mustAsk())
                case .success(let piece?):
                    state.pieces.append(piece)
                    state.unsent += 1
                case .success(nil): state.hasEnded = true
                case .failure(let error): state.failure = BodyProducerError(cause: error)
                }
                defer { state.isAwaited = false }
                return (state.isAwaited, false)
            }
            if asksAgain { ask() }
            if wakes { wake() }
        }
    }
}

/// A request body that supplies its pieces on request, so that no thread blocks in `read`.
package protocol AsyncBodyStream: InputStream {
    /// Requests the next piece, once the previous one has arrived. This method must not block. `then` is called once,
    /// on any thread, with nil at the end of the body. It is not called after ``stopSupplying()``.
    func supply(_ then: @escaping @Sendable (Result<Data?, any Error>) -> Void)

    /// Ends the supply of pieces.
    func stopSupplying()
}

/// The underlying error of a body that failed because user code threw an error.
package struct BodyProducerError: Error, CustomStringConvertible {
    /// The error that the user's code threw.
    package let cause: any Error

    package var description: String { String(describing: cause) }
}
