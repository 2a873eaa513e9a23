import Foundation
import Synchronization

/// Reports operations in an order that makes sense: none before those that it depends on.
///
/// An operation that is not run because another failed may finish before the other has delivered its failure.
final class ReportOrder: Sendable {
    private struct Reports {
        var done: Set<ObjectIdentifier> = []
        var waiting: [(operation: Operation, after: [ObjectIdentifier], report: @Sendable () -> Void)] = []
    }

    private let reports = Mutex(Reports())

    /// The operation has finished: calls `report` now, or as soon as its dependencies have been reported. Called on
    /// one queue, one call after the other.
    ///
    /// - Parameter after: its dependencies, which it has forgotten by now.
    func finish(_ operation: Operation, after: [ObjectIdentifier], _ report: @escaping @Sendable () -> Void) {
        reports.withLock { $0.waiting.append((operation, after, report)) }
        while let next = takeNext() { next() }
    }

    private func takeNext() -> (@Sendable () -> Void)? {
        reports.withLock { reports in
            let index = reports.waiting.firstIndex { waiting in
                waiting.after.allSatisfy { reports.done.contains($0) }
            }
            guard let index else { return nil }
            let next = reports.waiting.remove(at: index)
            reports.done.insert(ObjectIdentifier(next.operation))
            return next.report
        }
    }
}
