import Foundation
import Synchronization

/// Reports operations in an order that makes sense: none before those that it depends on.
///
/// An operation that is not run because another failed may finish before the other has delivered its failure. Each
/// operation and each dependency is looked at a fixed number of times, however long a chain is.
final class ReportOrder: Sendable {
    private struct Waiting {
        let id: ObjectIdentifier
        /// How many of its dependencies have not been reported.
        var missing: Int
        let report: @Sendable () -> Void
    }

    private struct Reports {
        var done: Set<ObjectIdentifier> = []
        var waiting: [ObjectIdentifier: Waiting] = [:]
        /// By a dependency: who waits for it.
        var dependents: [ObjectIdentifier: [ObjectIdentifier]] = [:]
        /// Those that wait for nothing any more, the next one last.
        var ready: [Waiting] = []
    }

    private let reports = Mutex(Reports())

    /// The operation has finished: calls `report` now, or as soon as its dependencies have been reported. Called on
    /// one queue, one call after the other.
    ///
    /// - Parameter after: its dependencies, which it has forgotten by now.
    func finish(_ operation: Operation, after: [ObjectIdentifier], _ report: @escaping @Sendable () -> Void) {
        let id = ObjectIdentifier(operation)
        reports.withLock { reports in
            let missing = Set(after).filter { !reports.done.contains($0) }
            let waiting = Waiting(id: id, missing: missing.count, report: report)
            guard !missing.isEmpty else { return reports.ready.append(waiting) }
            reports.waiting[id] = waiting
            for dependency in missing { reports.dependents[dependency, default: []].append(id) }
        }
        while let next = takeNext() { next() }
    }

    private func takeNext() -> (@Sendable () -> Void)? {
        reports.withLock { reports in
            guard let next = reports.ready.popLast() else { return nil }
            reports.done.insert(next.id)
            for dependent in reports.dependents.removeValue(forKey: next.id) ?? [] {
                reports.waiting[dependent]?.missing -= 1
                guard reports.waiting[dependent]?.missing == 0 else { continue }
                if let freed = reports.waiting.removeValue(forKey: dependent) { reports.ready.append(freed) }
            }
            return next.report
        }
    }
}
