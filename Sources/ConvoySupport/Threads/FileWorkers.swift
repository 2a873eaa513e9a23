import Foundation

/// Threads for calls to the file system, which are usually over in microseconds, and now and then are not.
///
/// One thread does all of the work as long as it is quick: waking another for each call would take longer than the call.
/// Only when work has waited for a moment, because a disk or another machine lets a call wait, does another thread take
/// it.
package final class FileWorkers: @unchecked Sendable {
    package typealias Job = @Sendable () -> Void

    package static let shared = FileWorkers()

    /// In seconds: how long work waits for a busy thread.
    private static let patience = 0.002
    /// In seconds: how long a thread waits for more.
    private static let idleTime = 10.0
    private static let mostThreads = 256

    private let condition = NSCondition()
    // Guarded by the condition.
    private var jobs = Backlog<Job>()
    /// How many jobs have been begun.
    private var begun: UInt64 = 0
    /// All threads, with those that are being made.
    private var threads = 0
    /// Those that run jobs.
    private var busy = 0
    /// Those that wait for nothing in particular.
    private var idle = 0
    /// Whether a thread has been woken or made, to run jobs or to watch those that do.
    private var isHelpComing = false
    /// Whether a thread waits for the patience to be over.
    private var hasWatcher = false

    /// Runs the block on one of the threads. Blocks begin in the order in which they come.
    package func perform(_ job: @escaping Job) {
        condition.lock()
        jobs.append(job)
        let help = helpNeeded()
        condition.unlock()
        call(help)
    }

    /// Who has to come so that the jobs are run, or watched.
    private enum Help { case nobody, idleThread, newThread }

    /// Decides who is to come. A new thread is counted already. With the lock.
    private func helpNeeded() -> Help {
        guard !isHelpComing, busy == 0 || !hasWatcher else { return .nobody }
        if idle > 0 {
            isHelpComing = true
            return .idleThread
        }
        guard threads < Self.mostThreads else { return .nobody }
        isHelpComing = true
        threads += 1
        return .newThread
    }

    /// Without the lock: a thread that is woken wants it at once.
    private func call(_ help: Help) {
        switch help {
        case .nobody: break
        case .idleThread: condition.signal()
        case .newThread: start()
        }
    }

    private func start() {
        do {
            try SystemThread.start(name: "Convoy.Files", stackSize: 512 << 10) { self.work() }
        } catch {
            // The others do it, or if there are none, a libdispatch thread this once.
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
            // Whoever has brought the others has called nobody, as this thread was about to come, or was watching.
            let help = jobs.count > 1 ? helpNeeded() : .nobody
            if help != .nobody {
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

    /// Whether there is work for this thread; if not, it ends. Called and returns with the lock.
    private func waitForWork() -> Bool {
        while true {
            if jobs.isEmpty {
                idle += 1
                let isSignalled = condition.wait(until: Date(timeIntervalSinceNow: Self.idleTime))
                idle -= 1
                isHelpComing = false
                if !isSignalled, jobs.isEmpty { return false }
            } else if busy == 0 {
                return true
            } else if hasWatcher {
                // Another one watches.
                idle += 1
                _ = condition.wait(until: Date(timeIntervalSinceNow: Self.idleTime))
                idle -= 1
                isHelpComing = false
            } else {
                hasWatcher = true
                let before = begun
                _ = condition.wait(until: Date(timeIntervalSinceNow: Self.patience))
                // It may have got the signal that was meant for another.
                (hasWatcher, isHelpComing) = (false, false)
                if !jobs.isEmpty, begun == before { return true }
            }
        }
    }
}
