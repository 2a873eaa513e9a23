import ConvoySupport
import Foundation
import Synchronization

/// The progress of a queue: one unit for each operation that finishes while a total is set.
final class QueueProgress: Progress, @unchecked Sendable {
    private let isReporting = Atomic<Bool>(false)
    /// How many were counted. `Progress` is for one thread at a time: who has this lock has its turn.
    private let counted = Locked(0)

    init() {
        super.init(parent: nil, userInfo: nil)
    }

    override var totalUnitCount: Int64 {
        get { super.totalUnitCount }
        set {
            super.totalUnitCount = newValue
            isReporting.store(newValue > 0, ordering: .releasing)
        }
    }

    func countOne() {
        guard isReporting.load(ordering: .acquiring) else { return }
        counted.withLock { counted in
            counted += 1
            completedUnitCount += 1
        }
    }
}
