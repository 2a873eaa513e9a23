import Foundation
import Synchronization

/// Tells of operations in an order that makes sense: of none before those that it depends on.
///
/// An operation that is not run because another failed may deliver that before the other delivers its failure.
final class TellingOrder: Sendable {
    private struct State {
        var told: Set<ObjectIdentifier> = []
        var waiting: [(operation: Operation, tell: @Sendable () -> Void)] = []
    }

    private let state = Mutex(State())

    /// The operation has finished: calls `tell` now, or as soon as its dependencies have been told of. Called on one
    /// queue, one call after the other.
    func finish(_ operation: Operation, _ tell: @escaping @Sendable () -> Void) {
        state.withLock { $0.waiting.append((operation, tell)) }
        while let next = takeNext() { next() }
    }

    private func takeNext() -> (@Sendable () -> Void)? {
        state.withLock { state in
            let index = state.waiting.firstIndex { waiting in
                waiting.operation.dependencies.allSatisfy { state.told.contains(ObjectIdentifier($0)) }
            }
            guard let index else { return nil }
            let next = state.waiting.remove(at: index)
            state.told.insert(ObjectIdentifier(next.operation))
            return next.tell
        }
    }
}
