import ConvoySupport
import Foundation

/// Asks for the pieces of a body as they are needed: the next one while the last one is sent, and none while the
/// network accepts no bytes.
final class SuppliedReader: BodyReader {
    /// Used by one thread at a time: `isAsking` orders its calls.
    private struct Box: @unchecked Sendable { let stream: any SuppliedBodyStream }

    private struct State {
        var pieces: [Data] = []
        /// How many pieces have arrived and are not sent yet.
        var unsent = 0
        var isAsking = false
        var hasEnded = false
        var isStopped = false
        var failure: BodySupplyFailure?
        var wake: (@Sendable () -> Void)?

        /// Whether the next piece is to be asked for now.
        mutating func mustAsk() -> Bool {
            guard !isAsking, !hasEnded, !isStopped, failure == nil, unsent <= 1 else { return false }
            isAsking = true
            return true
        }
    }

    private let box: Box
    private let thread: NetworkThread
    private let state = Locked(State())

    init(stream: any SuppliedBodyStream, thread: NetworkThread) {
        box = Box(stream: stream)
        self.thread = thread
    }

    func take(orWake wake: @escaping () -> Void) -> (chunks: [Data], hasEnded: Bool, failure: (any Error)?) {
        struct Call: @unchecked Sendable { let wake: () -> Void }
        let call = Call(wake: wake)
        let (old, mustAsk) = state.withLock { state -> (State, Bool) in
            let mustAsk = state.mustAsk()
            // Called only on the network thread, from which it came.
            if state.hasEnded || state.failure != nil { state.wake = nil } else { state.wake = { call.wake() } }
            defer { state.pieces = [] }
            return (state, mustAsk)
        }
        if mustAsk { ask() }
        return (old.pieces, old.hasEnded, old.failure)
    }

    /// The next piece is requested when the transfer asks for bytes again.
    func noteTaken(_ count: Int) { state.withLock { $0.unsent -= 1 } }

    func stop() {
        let old = state.withLock { state in
            state.isStopped = true
            defer { (state.wake, state.pieces) = (nil, []) }
            return state.wake
        }
        withExtendedLifetime(old) {}
        box.stream.stopSupplying()
    }

    private func ask() {
        box.stream.supply { [self] answer in
            let (wake, asksAgain) = state.withLock { state -> ((@Sendable () -> Void)?, Bool) in
                state.isAsking = false
                switch answer {
                case .success(let piece?) where piece.isEmpty: return (nil, state.mustAsk())
                case .success(let piece?):
                    state.pieces.append(piece)
                    state.unsent += 1
                case .success(nil): state.hasEnded = true
                case .failure(let error): state.failure = BodySupplyFailure(cause: error)
                }
                return (state.wake.take(), false)
            }
            if asksAgain { ask() }
            if let wake { thread.perform(wake) }
        }
    }
}

/// A request body that supplies its pieces on request, so that no thread blocks in `read`.
package protocol SuppliedBodyStream: InputStream {
    /// Requests the next piece; called when the previous one has arrived. Must not block. `then` is called once, on any
    /// thread, with nil at the end; it is not called after ``stopSupplying()``.
    func supply(_ then: @escaping @Sendable (Result<Data?, any Error>) -> Void)

    /// Ends the supply.
    func stopSupplying()
}

/// The underlying error of a body whose supplying user code failed.
package struct BodySupplyFailure: Error, CustomStringConvertible {
    /// The error that the user's code threw.
    package let cause: any Error

    package var description: String { String(describing: cause) }
}
