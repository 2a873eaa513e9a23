import Foundation

/// Threads for calls that may block: a user's streams, a user's `prepare`.
///
/// They are not libdispatch's, which gives a program four and would be stuck when four streams are slow. A thread
/// is made when work comes and none is idle, and ends after it had nothing to do for a while.
package final class BlockingWorkers: @unchecked Sendable {
    package typealias Job = @Sendable () -> Void

    /// At most 1,024 threads: under the usual limit of 1,024 open files no more transfers can be under way, so each
    /// may have one that blocks, and it is well below what a system gives to one program. A thread that only waits
    /// costs some 30 KB, half of it the kernel's.
    package static let shared = BlockingWorkers(limit: 1024)

    private struct State {
        var jobs = Backlog<Job>()
        /// All that there are, the one that is being made included.
        var threads = 0
        var idle = 0
        /// Whether a thread is on its way. It starts the next one, if there is need, before it does anything else.
        var isStarting = false
    }

    /// Makes a thread that runs the closure; throws if the system refuses.
    typealias ThreadMaker = @Sendable (@escaping Job) throws -> Void

    private let condition = NSCondition()
    // Guarded by the condition.
    private var state = State()
    private let limit: Int
    private let makeThread: ThreadMaker

    init(
        limit: Int,
        makeThread: @escaping ThreadMaker = {
            // As much stack as Apple's systems give to a secondary thread.
            try SystemThread.start(name: "Convoy.Worker", stackSize: 512 << 10, $0)
        }
    ) {
        self.limit = limit
        self.makeThread = makeThread
    }

    /// Runs the block on one of the threads; later, if all of them are busy and there can be no further one.
    package func perform(_ job: @escaping Job) {
        condition.lock()
        state.jobs.append(job)
        let needsThread = reserveThread()
        if !needsThread { condition.signal() }
        condition.unlock()
        if needsThread { startThread() }
    }

    /// Whether the caller must start a thread, which is counted already. Under the lock.
    private func reserveThread() -> Bool {
        guard state.jobs.count > state.idle, !state.isStarting, state.threads < limit else { return false }
        state.threads += 1
        state.isStarting = true
        return true
    }

    private func startThread() {
        do {
            try makeThread {
                self.condition.lock()
                self.state.isStarting = false
                self.condition.unlock()
                self.work(waits: true)
            }
        } catch {
            // The other threads do the work, and try for another one whenever they take some. If there is no other,
            // one of libdispatch's must help out this once: nothing that was handed in is lost.
            condition.lock()
            state.isStarting = false
            state.threads -= 1
            let isAlone = state.threads == 0
            if isAlone { state.threads = 1 }
            condition.unlock()
            if isAlone { DispatchQueue.global().async { self.work(waits: false) } }
        }
    }

    private func work(waits: Bool) {
        while let (job, needsThread) = nextJob(waits: waits) {
            if needsThread { startThread() }
            job()
        }
    }

    /// The next job, or nil when none has come for ten seconds and the thread is to end.
    private func nextJob(waits: Bool) -> (job: Job, needsThread: Bool)? {
        condition.lock()
        defer { condition.unlock() }
        var deadline: Date?
        while true {
            if let job = state.jobs.popFirst() {
                return (job, reserveThread())
            }
            let end = deadline ?? Date(timeIntervalSinceNow: 10)
            guard waits, Date() < end else {
                state.threads -= 1
                return nil
            }
            deadline = end
            state.idle += 1
            _ = condition.wait(until: end)
            state.idle -= 1
        }
    }
}
