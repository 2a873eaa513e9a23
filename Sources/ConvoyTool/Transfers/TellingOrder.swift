import Foundation
import Synchronization

/// Tells of operations in an order that makes sense: of none before those that it depends on.
///
/// An operation that is not run because another failed may deliver that before the other delivers its failure.
final class TellingOrder: Sendable {
    private struct State {
        var told: Set<ObjectIdentifier> = []
        var waiting: [(operation: Operation, after: [ObjectIdentifier], tell: @Sendable () -> Void)] = []
    }

    private let state = Mutex(State())

    /// The operation has finished: calls `tell` now, or as soon as its dependencies have been told of. Called on one
    /// queue, one call after the other.
    ///
    /// - Parameter after: its dependencies, which it has forgotten by now.
    func finish(_ operation: Operation, after: [ObjectIdentifier], _ tell: @escaping @Sendable () -> Void) {
        state.withLock { $0.waiting.append((operation, after, tell)) }
        while let next = takeNext() { next() }
    }

    private func takeNext() -> (@Sendable () -> Void)? {
        state.withLock { state in
            let index = state.waiting.firstIndex { waiting in
                waiting.after.allSatisfy { state.told.contains($0) }
            }
            guard let index else { return nil }
            let next = state.waiting.remove(at: index)
            state.told.insert(ObjectIdentifier(next.operation))
            return next.tell
        }
    }
}
