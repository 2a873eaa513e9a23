import ConvoySupport
import Foundation
import Synchronization

/// The progress of a queue: one unit for each operation that finishes while a total is set.
final class QueueProgress: Progress, @unchecked Sendable {
    private let isReporting = Atomic<Bool>(false)
    /// How many operations were counted. `Progress` is not thread-safe, so it is updated under this lock.
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
