import ConvoySupport
import Foundation

/// Iterates over a sequence of pieces in a task of its own, piece by piece as they are asked for. Stopped, it cancels the
/// task.
final class SequencePump: Sendable {
    typealias Receiver = @Sendable (Result<Data?, any Error>) -> Void

    private struct State {
        /// Who has asked for a piece.
        var receiver: Receiver?
        /// The task, waiting until somebody asks; resumed with whether it goes on.
        var idle: CheckedContinuation<Bool, Never>?
        var task: Task<Void, Never>?
        var hasStarted = false
        var isStopped = false
        var hasEnded = false
    }

    private let iterate: @Sendable (SequencePump) async -> Void
    private let state = Locked(State())

    init<Pieces: AsyncSequence & SendableMetatype>(_ make: @escaping @Sendable () throws -> Pieces)
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8,
        Pieces.AsyncIterator: SendableMetatype
    {
        iterate = { pump in
            guard await pump.isAsked() else { return }
            do {
                for try await piece in try make() {
                    pump.answer(.success(Data(piece)))
                    guard await pump.isAsked() else { return }
                }
                pump.answer(.success(nil))
            } catch {
                pump.answer(.failure(error))
            }
        }
    }

    /// Asks for the next piece. After the end, or when it was stopped, there is only an error.
    func next(_ receiver: @escaping Receiver) {
        let (isOver, starts, idle) = state.withLock { state -> (Bool, Bool, CheckedContinuation<Bool, Never>?) in
            if state.isStopped || state.hasEnded { return (true, false, nil) }
            state.receiver = receiver
            defer { state.hasStarted = true }
            return (false, !state.hasStarted, state.idle.take())
        }
        if isOver { return receiver(.failure(URLError(.requestBodyStreamExhausted))) }
        idle?.resume(returning: true)
        guard starts else { return }
        let task = Task { [self] in await iterate(self) }
        let isStopped = state.withLock { state in
            if !state.hasEnded { state.task = task }
            return state.isStopped
        }
        if isStopped { task.cancel() }
    }

    /// Nothing more is needed. One that was never asked can still be.
    func stop() {
        let held = state.withLock { state -> State? in
            guard state.hasStarted, !state.isStopped else { return nil }
            defer {
                state.isStopped = true
                (state.receiver, state.idle, state.task) = (nil, nil, nil)
            }
            return state
        }
        guard let held else { return }
        held.task?.cancel()
        held.idle?.resume(returning: false)
    }

    // MARK: The task

    /// Waits until somebody asks for a piece. False if nobody will.
    private func isAsked() async -> Bool {
        await withCheckedContinuation { continuation in
            let answer = state.withLock { state -> Bool? in
                if state.isStopped { return false }
                if state.receiver != nil { return true }
                state.idle = continuation
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }

    private func answer(_ answer: Result<Data?, any Error>) {
        let receiver = state.withLock { state in
            if case .success(_?) = answer {} else { (state.hasEnded, state.task) = (true, nil) }
            return state.receiver.take()
        }
        receiver?(answer)
    }
}
