import Foundation
import Synchronization

/// Threads for calls that may block: reading a user's stream, writing to one.
///
/// They are not libdispatch's, which gives a program four and would be stuck when four streams are slow. A thread
/// is made when work comes and none is idle, and ends after it had nothing to do for a while.
package final class BlockingWorkers: Sendable {
    package static let shared = BlockingWorkers(limit: 64)

    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var next = 0
        var threads = 0
        var idle = 0
        var isEmpty: Bool { next == jobs.count }
    }

    private let state = Locked(State())
    private let condition = NSCondition()
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Runs the block on one of the threads; later, if all of them are busy.
    package func perform(_ job: @escaping @Sendable () -> Void) {
        let needsThread = state.withLock { state in
            state.jobs.append(job)
            let isShort = state.idle < state.jobs.count - state.next && state.threads < limit
            if isShort { state.threads += 1 }
            return isShort
        }
        if needsThread {
            let thread = Thread { self.work() }
            thread.stackSize = 1 << 19
            thread.start()
        } else {
            condition.lock()
            condition.signal()
            condition.unlock()
        }
    }

    private func work() {
        Thread.current.name = "Convoy.Worker"
        while let job = nextJob() { job() }
    }

    /// The next job, or nil when none came for ten seconds and the thread is to end.
    private func nextJob() -> (@Sendable () -> Void)? {
        condition.lock()
        defer { condition.unlock() }
        let deadline = Date(timeIntervalSinceNow: 10)
        var isLate = false
        while true {
            let job: (@Sendable () -> Void)? = state.withLock { state in
                guard !state.isEmpty else {
                    if isLate { state.threads -= 1 } else { state.idle += 1 }
                    return nil
                }
                let job = state.jobs[state.next]
                state.next += 1
                if state.isEmpty {
                    state.jobs = []
                    state.next = 0
                }
                return job
            }
            if let job { return job }
            if isLate { return nil }
            isLate = !condition.wait(until: deadline)
            state.withLock { $0.idle -= 1 }
        }
    }
}
