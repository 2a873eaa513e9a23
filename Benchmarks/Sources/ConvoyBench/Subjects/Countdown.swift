import Foundation
import Synchronization

/// Waits for so many things to be done, and counts those that went wrong.
final class Countdown: Sendable {
    private let left: Atomic<Int>
    private let failures = Atomic<Int>(0)
    private let zero = DispatchSemaphore(value: 0)

    init(_ count: Int) { left = Atomic(count) }

    /// One more is done. Any thread.
    func done(_ isRight: Bool = true) {
        if !isRight { failures.wrappingAdd(1, ordering: .relaxed) }
        if left.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { zero.signal() }
    }

    /// Blocks the thread until all are done; returns how many went wrong.
    func wait() -> Int {
        zero.wait()
        return failures.load(ordering: .relaxed)
    }
}
