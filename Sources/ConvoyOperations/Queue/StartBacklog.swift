import ConvoySupport
import Foundation

/// The operations of a queue that were granted a slot and wait for a thread of its dispatch queue.
///
/// A Foundation operation for each start would cost more than a short operation itself. So one Foundation operation
/// starts operations until none is left. Whenever operations wait, another one has been submitted, so an operation that
/// takes long or blocks does not delay those behind it.
final class StartBacklog: Sendable {
    private struct State {
        var operations = Backlog<ScheduledOperation>()
        /// Whether a Foundation operation was submitted that has not begun yet.
        var isSubmitted = false

        /// Returns whether the caller must submit a Foundation operation for those that wait, which is recorded.
        mutating func mustSubmit() -> Bool {
            guard !operations.isEmpty, !isSubmitted else { return false }
            isSubmitted = true
            return true
        }
    }

    /// The operation that a thread is starting for a backlog.
    private struct Current {
        let backlog: StartBacklog
        var operation: ScheduledOperation?
    }

    /// The maximum number of operations to start in a row before other work of the dispatch queue.
    private static let mostInARow = 64
    private static let current = ThreadPointer<Current>()
    private let state = Locked(State())

    /// Starts an operation on the dispatch queue of its queue.
    ///
    /// To Foundation, the start is part of an operation of the queue, so that `OperationQueue.current` is correct in the
    /// code that it runs.
    ///
    /// - Parameter start: Starts an operation unless it has lost its slot.
    func append(
        _ operation: ScheduledOperation, in queue: RequestOperationQueue,
        start: @escaping @Sendable (ScheduledOperation) -> Void
    ) {
        let isTakenHere = isCurrentOver
        let submits = state.withLock { state in
            state.operations.append(operation)
            return !isTakenHere && state.mustSubmit()
        }
        if submits { submit(to: queue, start) }
    }

    /// Whether this thread is about to take the next operation: the one that it has started has finished, and nothing of
    /// a user's follows.
    private var isCurrentOver: Bool {
        guard let current = Self.current.current?.pointee, current.backlog === self, let operation = current.operation
        else { return false }
        return operation.isOfLibrary && operation.isFinished
    }

    private func submit(to queue: RequestOperationQueue, _ start: @escaping @Sendable (ScheduledOperation) -> Void) {
        queue.startInFoundation(BlockOperation { self.run(in: queue, start) })
    }

    private func run(in queue: RequestOperationQueue, _ start: @escaping @Sendable (ScheduledOperation) -> Void) {
        var current = Current(backlog: self)
        Self.current.provide(&current) { current in
            state.withLock { $0.isSubmitted = false }
            for _ in 0..<Self.mostInARow {
                guard let (operation, submits) = takeFirst() else { return }
                if submits { submit(to: queue, start) }
                current.pointee.operation = operation
                start(operation)
                current.pointee.operation = nil
            }
            if state.withLock({ $0.mustSubmit() }) { submit(to: queue, start) }
        }
    }

    private func takeFirst() -> (operation: ScheduledOperation, submits: Bool)? {
        state.withLock { state in state.operations.popFirst().map { ($0, state.mustSubmit()) } }
    }
}
