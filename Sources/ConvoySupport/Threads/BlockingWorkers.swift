import Foundation
import Synchronization

/// Threads for calls that may block, for example a user's streams or `prepare` closure.
///
/// libdispatch's pool is too small: a few slow streams would exhaust it. A thread is created when work arrives and no
/// thread is idle, and it ends after being idle for some time.
package final class BlockingWorkers: @unchecked Sendable {
    package typealias Job = @Sendable () -> Void

    /// The shared pool, with at most 1,024 threads. The usual limit of 1,024 open files allows no more transfers, so
    /// each transfer can block a thread. Systems allow far more threads per process. A waiting thread uses about 30 KB,
    /// half of it in the kernel.
    package static let shared = BlockingWorkers(limit: 1024)

    /// A job and, if the caller may abandon it, its handle.
    private struct Entry {
        let job: Job
        let call: BlockingCall?
    }

    private struct State {
        var jobs = Backlog<Entry>()
        /// The number of threads, including one that is being created, but not those running abandoned calls.
        var threads = 0
        var idle = 0
        /// Whether a thread is being created. If another thread is needed, the new thread creates it before doing
        /// anything else.
        var isStarting = false
    }

    /// Creates a thread that runs the closure. Throws if the system refuses.
    package typealias ThreadMaker = @Sendable (@escaping Job) throws -> Void

    private let condition = MonotonicCondition()
    // The condition guards the state.
    private var state = State()
    private let limit: Int
    private let makeThread: ThreadMaker

    /// Creates a separate pool for another kind of work.
    ///
    /// - Parameter limit: The maximum number of threads.
    package init(
        limit: Int,
        makeThread: @escaping ThreadMaker = {
            // Use the same stack size as secondary threads on Apple platforms.
            try SystemThread.start(name: "Convoy.Worker", stackSize: 512 << 10, $0)
        }
    ) {
        self.limit = limit
        self.makeThread = makeThread
    }

    /// Runs the block on one of the threads. If all threads are busy and the limit is reached, the block waits.
    package func perform(_ job: @escaping Job) { append(Entry(job: job, call: nil)) }

    /// Runs a job that may never return. If `call` is abandoned before the job begins, the job does not run. Otherwise
    /// the job must end by calling `call.finish()`, which returns whether its result is still needed.
    package func perform(_ call: BlockingCall, _ job: @escaping Job) { append(Entry(job: job, call: call)) }

    /// Stops counting the thread of an abandoned call, and starts another thread if needed. The old thread ends when
    /// the job returns.
    package func replaceThread(of call: BlockingCall) {
        guard call.isAbandoned else { return }
        #if DEBUG
        // Simulated threads are not counted.
        if Simulation.threads != nil { return }
        #endif
        condition.lock()
        state.threads -= 1
        let needsThread = reserveThread()
        condition.unlock()
        if needsThread { startThread() }
    }

    private func append(_ entry: Entry) {
        #if DEBUG
        if let threads = Simulation.threads {
            guard let call = entry.call else { return threads.perform(entry.job) }
            // The caller can abandon the call before or after it begins.
            return threads.perform { if call.begin() { Simulation.threads?.perform(entry.job) } }
        }
        #endif
        condition.lock()
        state.jobs.append(entry)
        let needsThread = reserveThread()
        if !needsThread { condition.signal() }
        condition.unlock()
        if needsThread { startThread() }
    }

    /// Reserves a thread, which the caller must then start. Returns false if none is needed. The lock must be held.
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
            // The other threads run the jobs and try to start a thread whenever they take a job. Without other threads,
            // a libdispatch thread runs the jobs this time, so that no job is lost.
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
        while let (entry, needsThread) = nextJob(waits: waits) {
            if needsThread { startThread() }
            guard let call = entry.call else {
                entry.job()
                continue
            }
            if call.begin() { entry.job() }
            // Another thread has already replaced the current one.
            if call.isAbandoned { return }
        }
    }

    /// Returns the next job, or nil if no job has arrived for ten seconds and the thread must end.
    private func nextJob(waits: Bool) -> (entry: Entry, needsThread: Bool)? {
        condition.lock()
        defer { condition.unlock() }
        var deadline: MonotonicTime?
        while true {
            if let entry = state.jobs.popFirst() { return (entry, reserveThread()) }
            let now = MonotonicClock.now
            let end = deadline ?? now + 10_000_000_000
            guard waits, now < end else {
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

/// A handle with which a caller can abandon a call to code that may never return.
///
/// Exactly one of ``finish()`` and ``giveUp()`` returns true, so that only one side continues.
package final class BlockingCall: Sendable {
    enum State: UInt8, AtomicRepresentable {
        /// No thread has started the call yet.
        case waiting
        case running
        /// The code has returned, and its caller receives the result.
        case finished
        /// The call was abandoned before a thread started it, so the code will not run.
        case withdrawn
        /// The call was abandoned while the code was running. Its thread is blocked until the code returns.
        case abandoned
    }

    private let state = Atomic<State>(.waiting)

    package init() {}

    /// Records that a thread is about to run the code. Returns false if the call was abandoned.
    func begin() -> Bool {
        state.compareExchange(expected: .waiting, desired: .running, ordering: .acquiringAndReleasing).exchanged
    }

    /// Records, on the calling thread, that the code has returned. Returns false if the call was abandoned and the
    /// result must be dropped.
    package func finish() -> Bool {
        state.compareExchange(expected: .running, desired: .finished, ordering: .acquiringAndReleasing).exchanged
    }

    /// Abandons the call. Returns false if the code has already returned or the call was abandoned earlier. This method
    /// takes no lock. Call ``BlockingWorkers/replaceThread(of:)`` afterwards.
    package func giveUp() -> Bool {
        if state.compareExchange(expected: .waiting, desired: .withdrawn, ordering: .acquiringAndReleasing).exchanged {
            return true
        }
        return state.compareExchange(expected: .running, desired: .abandoned, ordering: .acquiringAndReleasing).exchanged
    }

    /// Whether the call was abandoned before its code ran, so that the code will not run.
    package var isWithdrawn: Bool { state.load(ordering: .acquiring) == .withdrawn }
    /// Whether the call was abandoned while its code was running.
    package var isAbandoned: Bool { state.load(ordering: .acquiring) == .abandoned }
}
