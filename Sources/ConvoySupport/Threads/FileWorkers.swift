import Foundation

/// Threads for file system calls, which usually take microseconds but can block for a long time.
///
/// A single thread runs all jobs as long as it keeps up, because waking another thread would take longer than most
/// calls. Another thread takes over only if a job has waited for a moment because a call blocks on a disk or on another
/// machine.
package final class FileWorkers: @unchecked Sendable {
    package typealias Job = @Sendable () -> Void

    package static let shared = FileWorkers()

    /// The time a job waits for a busy thread, in nanoseconds.
    private static let patience: UInt64 = 2_000_000
    /// The time a thread waits for another job, in nanoseconds.
    private static let idleTime: UInt64 = 10_000_000_000
    private static let mostThreads = 256

    private let condition = MonotonicCondition()
    // The condition guards these properties.
    private var jobs = Backlog<Job>()
    /// The number of jobs that have begun.
    private var begun: UInt64 = 0
    /// The number of threads, including those being created.
    private var threads = 0
    /// The number of threads that are running jobs.
    private var busy = 0
    /// The number of threads that are waiting for a job.
    private var idle = 0
    /// Whether a thread has been woken or created and has not yet checked `jobs`.
    private var isHelpComing = false
    /// Whether a thread is watching the busy one until `patience` expires.
    private var hasWatcher = false

    /// Runs the block on one of the threads. Blocks begin in the order in which they are submitted.
    package func perform(_ job: @escaping Job) {
        #if DEBUG
        if let threads = Simulation.threads { return threads.perform(job) }
        #endif
        condition.lock()
        jobs.append(job)
        let help = helpNeeded()
        condition.unlock()
        call(help)
    }

    /// The kind of thread needed to run or watch the jobs.
    private enum Help { case notNeeded, idleThread, newThread }

    /// Chooses the kind of thread, and counts a new thread. The lock must be held.
    private func helpNeeded() -> Help {
        guard !isHelpComing, busy == 0 || !hasWatcher else { return .notNeeded }
        if idle > 0 {
            isHelpComing = true
            return .idleThread
        }
        guard threads < Self.mostThreads else { return .notNeeded }
        isHelpComing = true
        threads += 1
        return .newThread
    }

    /// Wakes or creates a thread, if needed. Must be called without the lock, which a woken thread needs immediately.
    private func call(_ help: Help) {
        switch help {
        case .notNeeded: break
        case .idleThread: condition.signal()
        case .newThread: start()
        }
    }

    private func start() {
        do {
            try SystemThread.start(name: "Convoy.Files", stackSize: 512 << 10) { self.work() }
        } catch {
            // The other threads run the jobs. Without other threads, a libdispatch thread runs them this time.
            condition.lock()
            threads -= 1
            isHelpComing = false
            let isAlone = threads == 0
            if isAlone { threads = 1 }
            condition.unlock()
            if isAlone { DispatchQueue.global().async { self.work() } }
        }
    }

    private func work() {
        condition.lock()
        isHelpComing = false
        while waitForWork() {
            busy += 1
            // `perform` has not woken a thread for these jobs, because this thread was starting or watching.
            let help = jobs.count > 1 ? helpNeeded() : .notNeeded
            if help != .notNeeded {
                condition.unlock()
                call(help)
                condition.lock()
            }
            while let job = jobs.popFirst() {
                begun &+= 1
                condition.unlock()
                job()
                condition.lock()
            }
            busy -= 1
        }
        threads -= 1
        condition.unlock()
    }

    /// Waits for a job. Returns false if none arrived and the thread must end. The lock must be held, and is held on
    /// return.
    private func waitForWork() -> Bool {
        while true {
            if jobs.isEmpty {
                idle += 1
                let isSignalled = condition.wait(until: MonotonicClock.now + Self.idleTime)
                idle -= 1
                isHelpComing = false
                if !isSignalled, jobs.isEmpty { return false }
            } else if busy == 0 {
                return true
            } else if hasWatcher {
                // Another thread is already watching the busy one.
                idle += 1
                _ = condition.wait(until: MonotonicClock.now + Self.idleTime)
                idle -= 1
                isHelpComing = false
            } else {
                hasWatcher = true
                let before = begun
                _ = condition.wait(until: MonotonicClock.now + Self.patience)
                // This thread may have received a signal intended for another.
                hasWatcher = false
                isHelpComing = false
                if !jobs.isEmpty, begun == before { return true }
            }
        }
    }
}
