import ConvoySupport
import Foundation

/// The monotonic clock of a queue, in nanoseconds. Tests replace it.
package protocol SchedulingClock: Sendable {
    /// The time since a fixed moment in the past.
    var now: UInt64 { get }

    /// Calls `block` once, on any thread, when `now` is at or after `deadline`, unless the timer is cancelled first.
    ///
    /// The clock retains the timer.
    @discardableResult
    func schedule(at deadline: UInt64, _ block: @escaping @Sendable () -> Void) -> any ClockTimer
}

/// A timer scheduled with a ``SchedulingClock``.
package protocol ClockTimer: AnyObject, Sendable {
    /// Removes and releases the timer. A block that is about to be called may still be called.
    func cancel()
}

extension SchedulingClock {
    /// Returns the date at which the clock reaches a time in nanoseconds; the current date if that time has passed.
    func date(of deadline: UInt64) -> Date {
        let now = self.now
        return Date(timeIntervalSinceNow: deadline > now ? Double(deadline - now) / 1e9 : 0)
    }
}

/// The system's monotonic clock, with one timer queue for the whole program.
package struct MonotonicClock: SchedulingClock {
    package init() {}

    package var now: UInt64 { TimerQueue.shared.now }

    @discardableResult
    package func schedule(at deadline: UInt64, _ block: @escaping @Sendable () -> Void) -> any ClockTimer {
        TimerQueue.shared.schedule(at: deadline, block)
    }
}

/// The timers of the system's monotonic clock: a heap, and one Dispatch timer for the earliest of them.
///
/// Dispatch's own `asyncAfter` cannot be cancelled, and would keep the timeout of each operation long after its end.
/// Setting and cancelling a timer take O(log n), and rarely require a call to Dispatch: its timer is set only for a
/// deadline before all others, and left unchanged when that deadline is cancelled.
package final class TimerQueue: SchedulingClock, @unchecked Sendable {
    fileprivate static let shared = TimerQueue()

    private struct State {
        var timers = TimerHeap()
        /// The time when the Dispatch timer fires; `.max` for never.
        var wake = UInt64.max
    }

    private final class Timer: ClockTimer, @unchecked Sendable {
        /// The timer in the queue's heap, used only under the queue's lock.
        let timer: RunLoopTimer
        private let queue: TimerQueue

        init(_ timer: RunLoopTimer, in queue: TimerQueue) {
            self.timer = timer
            self.queue = queue
        }

        func cancel() { queue.state.withLock { $0.timers.cancel(timer) } }
    }

    private let state = ContendedLock(State())
    private let source = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "Convoy.Clock"))

    /// Creates a queue without timers.
    package init() {
        source.schedule(deadline: .distantFuture)
        source.setEventHandler { [weak self] in self?.fireDueTimers() }
        source.activate()
    }

    deinit { source.cancel() }

    package var now: UInt64 { DispatchTime.now().uptimeNanoseconds }

    /// The number of timers that are set.
    package var count: Int { state.withLock { $0.timers.count } }

    @discardableResult
    package func schedule(at deadline: UInt64, _ block: @escaping @Sendable () -> Void) -> any ClockTimer {
        // The timers' thread must not be delayed, so the block runs elsewhere.
        let timer = Timer(RunLoopTimer { DispatchQueue.global().async(execute: block) }, in: self)
        state.withLock { state in
            state.timers.schedule(timer.timer, at: deadline)
            wake(&state)
        }
        return timer
    }

    /// Makes the Dispatch timer fire no later than the first deadline. Called under the lock, so that the last call
    /// uses the latest state.
    private func wake(_ state: inout State) {
        guard let deadline = state.timers.nextDeadline, deadline < state.wake else { return }
        state.wake = deadline
        source.schedule(deadline: DispatchTime(uptimeNanoseconds: min(deadline, Nanoseconds.latestDispatchTime)))
    }

    private func fireDueTimers() {
        struct Due: @unchecked Sendable { var timers: [RunLoopTimer] = [] }
        let due = state.withLock { state in
            var due = Due()
            let now = now
            while let timer = state.timers.popDue(now: now) { due.timers.append(timer) }
            state.wake = .max
            wake(&state)
            return due
        }
        for timer in due.timers { timer.fire() }
    }
}
