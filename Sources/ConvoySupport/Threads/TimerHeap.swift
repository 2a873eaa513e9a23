/// A run loop timer. It can be scheduled again after it has fired or been cancelled.
///
/// It must be used only on the run loop's thread.
package final class RunLoopTimer {
    @exclusivity(unchecked) package fileprivate(set) var deadline: MonotonicTime = 0
    @exclusivity(unchecked) fileprivate var position = -1
    /// The closure that the run loop calls at the deadline.
    package let fire: () -> Void

    package init(fire: @escaping () -> Void) { self.fire = fire }

    package var isScheduled: Bool { position >= 0 }
}

/// The timers of a run loop, in a binary heap. Each timer stores its position, so that scheduling and cancelling take
/// O(log n).
package struct TimerHeap {
    private var timers: [RunLoopTimer] = []

    /// Creates an empty heap.
    package init() {}

    package var nextDeadline: MonotonicTime? { timers.first?.deadline }
    package var count: Int { timers.count }

    /// Schedules a timer, or reschedules one that is already scheduled.
    package mutating func schedule(_ timer: RunLoopTimer, at deadline: MonotonicTime) {
        let earlier = timer.deadline
        timer.deadline = deadline
        if timer.position < 0 {
            timer.position = timers.count
            timers.append(timer)
            rise(timer.position)
        } else if deadline < earlier {
            rise(timer.position)
        } else {
            sink(timer.position)
        }
    }

    /// Removes a timer. Does nothing if the timer is not scheduled.
    package mutating func cancel(_ timer: RunLoopTimer) {
        let position = timer.position
        guard position >= 0 else { return }
        timer.position = -1
        let last = timers.removeLast()
        guard last !== timer else { return }
        timers[position] = last
        last.position = position
        rise(position)
        sink(last.position)
    }

    /// Removes and returns the next timer if it is due.
    package mutating func popDue(now: MonotonicTime) -> RunLoopTimer? {
        guard let first = timers.first, first.deadline <= now else { return nil }
        cancel(first)
        return first
    }

    private mutating func rise(_ start: Int) {
        var position = start
        let timer = timers[position]
        while position > 0 {
            let parent = (position - 1) / 2
            guard timers[parent].deadline > timer.deadline else { break }
            timers[position] = timers[parent]
            timers[position].position = position
            position = parent
        }
        timers[position] = timer
        timer.position = position
    }

    private mutating func sink(_ start: Int) {
        var position = start
        let timer = timers[position]
        while true {
            var child = position * 2 + 1
            guard child < timers.count else { break }
            if child + 1 < timers.count, timers[child + 1].deadline < timers[child].deadline { child += 1 }
            guard timers[child].deadline < timer.deadline else { break }
            timers[position] = timers[child]
            timers[position].position = position
            position = child
        }
        timers[position] = timer
        timer.position = position
    }
}
