import Foundation
import Synchronization

/// Reports each operation after its dependencies.
///
/// An operation that is not run because another one failed may finish before the handlers of the other one have run.
/// The cost per operation and dependency is constant.
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
        /// The waiting operations, by dependency.
        var dependents: [ObjectIdentifier: [ObjectIdentifier]] = [:]
        /// Reports that wait for nothing any more, the next one last.
        var ready: [Waiting] = []
    }

    private let reports = Mutex(Reports())

    /// Calls `report` for a finished operation now, or as soon as its dependencies have been reported. Called on a
    /// serial queue.
    ///
    /// - Parameter after: its dependencies, which the finished operation no longer has.
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
