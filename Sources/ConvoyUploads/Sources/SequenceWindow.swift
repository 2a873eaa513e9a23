import ConvoyOperations
import ConvoySupport
import Foundation

/// The unconfirmed bytes of a sequence, kept so that they can be sent again, and a few additional bytes.
///
/// The window requests a piece from the sequence only while it has fewer bytes than a request needs. It never keeps
/// more than that number of bytes and one piece.
final class SequenceWindow: Sendable {
    private struct State {
        var bytes = Data()
        /// The position of the first byte in the sequence.
        var start: Int64 = 0
        var hasEnded = false
        var failure: (any Error)?
        var isAsking = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let pump: SequencePump
    private let state = Locked(State())

    init(_ pump: SequencePump) { self.pump = pump }

    deinit { pump.stop() }

    /// The total length of the sequence; nil until it has ended.
    var length: Int64? { state.withLock { $0.hasEnded ? $0.start + Int64($0.bytes.count) : nil } }

    /// The positions of the available bytes.
    var kept: Range<Int64> { state.withLock { $0.start..<($0.start + Int64($0.bytes.count)) } }

    /// Waits until the window extends at least one byte beyond a position, so that the end is detected, or until the
    /// sequence has ended.
    ///
    /// - Throws: The sequence's error, or `CancellationError`. Received bytes are kept.
    func fill(to position: Int64) async throws {
        while true {
            let (isDone, failure) = state.withLock { state in
                (state.hasEnded || state.start + Int64(state.bytes.count) > position, state.failure)
            }
            if let failure { throw UploadSequenceFailure(cause: failure) }
            if isDone { return }
            try Task.checkCancellation()
            await nextPiece()
        }
    }

    /// Waits for a piece, or until the task is cancelled.
    private func nextPiece() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (asks, wakes) = state.withLock { state -> (Bool, Bool) in
                    // The task was cancelled before this method was called.
                    if Task.isCancelled { return (false, true) }
                    state.waiter = continuation
                    defer { state.isAsking = true }
                    return (!state.isAsking, false)
                }
                if wakes { return continuation.resume() }
                if asks { pump.next { [weak self] piece in self?.take(piece) } }
            }
        } onCancel: {
            state.withLock { $0.waiter.take() }?.resume()
        }
    }

    private func take(_ piece: Result<Data?, any Error>) {
        let waiter = state.withLock { state in
            state.isAsking = false
            switch piece {
            case .success(let bytes?): state.bytes.append(bytes)
            case .success(nil): state.hasEnded = true
            case .failure(let error): state.failure = error
            }
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Returns the bytes of a range; nil if they are not available.
    func bytes(_ range: Range<Int64>) -> Data? {
        state.withLock { state in
            guard range.lowerBound >= state.start, range.upperBound <= state.start + Int64(state.bytes.count) else {
                return nil
            }
            let first = state.bytes.startIndex + Int(range.lowerBound - state.start)
            return Data(state.bytes[first..<(first + Int(range.upperBound - range.lowerBound))])
        }
    }

    /// Removes and returns the bytes before a position. The server must have confirmed them.
    func release(to position: Int64) -> Data {
        state.withLock { state in
            let count = Int(max(0, min(position - state.start, Int64(state.bytes.count))))
            guard count > 0 else { return Data() }
            let gone = Data(state.bytes.prefix(count))
            state.bytes = Data(state.bytes.dropFirst(count))
            state.start += Int64(count)
            return gone
        }
    }
}

/// An error thrown by a sequence, which a retry cannot fix.
struct UploadSequenceFailure: Error {
    let cause: any Error
}
