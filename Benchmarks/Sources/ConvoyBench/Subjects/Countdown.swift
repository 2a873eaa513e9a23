import Foundation
import Synchronization

/// A counter that waits until a number of tasks are done, and counts failed ones.
final class Countdown: Sendable {
    private let left: Atomic<Int>
    private let failures = Atomic<Int>(0)
    private let zero = DispatchSemaphore(value: 0)

    init(_ count: Int) { left = Atomic(count) }

    /// Counts a finished task. Can be called from any thread.
    func done(_ isRight: Bool = true) {
        if !isRight { failures.wrappingAdd(1, ordering: .relaxed) }
        if left.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { zero.signal() }
    }

    /// Blocks the thread until all tasks are done. Returns the number of failed tasks.
    func wait() -> Int {
        zero.wait()
        return failures.load(ordering: .relaxed)
    }
}
