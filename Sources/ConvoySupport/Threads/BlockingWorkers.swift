import Foundation
import Synchronization

/// Threads for calls that may block: a user's streams, a user's `prepare`.
///
/// libdispatch's pool is too small: a few slow streams would exhaust it. A thread is created when work arrives and none
/// is idle, and ends after some idle time.
package final class BlockingWorkers: @unchecked Sendable {
    package typealias Job = @Sendable () -> Void

    /// At most 1,024 threads: with the usual limit of 1,024 open files there cannot be more transfers, so each may have
    /// a blocked thread. Systems allow a process many more. A waiting thread costs about 30 KB, half of it in the
    /// kernel.
    package static let shared = BlockingWorkers(limit: 1024)

    /// A job, and its handle if the caller may give it up.
    private struct Entry {
        let job: Job
        let call: BlockingCall?
    }

    private struct State {
        var jobs = Backlog<Entry>()
        /// All threads, including one that is being created, without those that were given up.
        var threads = 0
        var idle = 0
        /// Whether a thread is being created. It starts the next one, if needed, before it does anything else.
        var isStarting = false
    }

    /// Creates a thread that runs the closure; throws if the system refuses.
    package typealias ThreadMaker = @Sendable (@escaping Job) throws -> Void

    private let condition = NSCondition()
    // Guarded by the condition.
    private var state = State()
    private let limit: Int
    private let makeThread: ThreadMaker

    /// Threads of another kind of work.
    ///
    /// - Parameter limit: how many there are at most.
    package init(
        limit: Int,
        makeThread: @escaping ThreadMaker = {
            // As much stack as Apple's systems give to a secondary thread.
            try SystemThread.start(name: "Convoy.Worker", stackSize: 512 << 10, $0)
        }
    ) {
        self.limit = limit
        self.makeThread = makeThread
    }

    /// Runs the block on one of the threads; later, if all of them are busy and the limit is reached.
    package func perform(_ job: @escaping Job) { append(Entry(job: job, call: nil)) }

    /// Runs a job that may never return. If `call` is given up before the job begins, the job does not run; otherwise
    /// the job must call `call.finish()` at its end, to learn whether its result is still wanted.
    package func perform(_ call: BlockingCall, _ job: @escaping Job) { append(Entry(job: job, call: call)) }

    /// Stops counting the thread of a call that was given up, and starts another if needed. The thread ends when the
    /// job returns.
    package func replaceThread(of call: BlockingCall) {
        guard call.isAbandoned else { return }
        #if DEBUG
        // These threads are not counted.
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
            // It may be given up before it begins, and when it has begun.
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

    /// Whether the caller must start a thread, which is already counted. The lock must be held.
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
            // The other threads run the jobs, and try again to start one whenever they take a job. If there is no
            // other, a libdispatch thread runs the jobs this once, so that none is lost.
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
            // Another thread has taken this one's place.
            if call.isAbandoned { return }
        }
    }

    /// The next job; nil if none has arrived for ten seconds, so that the thread must end.
    private func nextJob(waits: Bool) -> (entry: Entry, needsThread: Bool)? {
        condition.lock()
        defer { condition.unlock() }
        var deadline: Date?
        while true {
            if let entry = state.jobs.popFirst() { return (entry, reserveThread()) }
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

/// A handle for code that may never return, by which its caller can give it up.
///
/// Exactly one of ``finish()`` and ``giveUp()`` returns true, so that only one side continues.
package final class BlockingCall: Sendable {
    enum State: UInt8, AtomicRepresentable {
        /// No thread has taken it yet.
        case waiting
        case running
        /// The code has returned, and its caller takes the result.
        case finished
        /// Given up before a thread had taken it; the code will not run.
        case withdrawn
        /// Given up while the code was running. Its thread is lost until the code returns.
        case abandoned
    }

    private let state = Atomic<State>(.waiting)

    package init() {}

    /// Notes that a thread is about to run the code. False if the call was given up.
    func begin() -> Bool {
        state.compareExchange(expected: .waiting, desired: .running, ordering: .acquiringAndReleasing).exchanged
    }

    /// Notes that the code has returned; called on its thread. False if the call was given up, so that the result must
    /// be dropped.
    package func finish() -> Bool {
        state.compareExchange(expected: .running, desired: .finished, ordering: .acquiringAndReleasing).exchanged
    }

    /// Gives the call up. False if the code has already returned, or the call was given up before. Takes no lock. Call
    /// ``BlockingWorkers/replaceThread(of:)`` afterwards.
    package func giveUp() -> Bool {
        if state.compareExchange(expected: .waiting, desired: .withdrawn, ordering: .acquiringAndReleasing).exchanged {
            return true
        }
        return state.compareExchange(expected: .running, desired: .abandoned, ordering: .acquiringAndReleasing).exchanged
    }

    /// Whether it was given up before its code ran, so that the code will not run.
    package var isWithdrawn: Bool { state.load(ordering: .acquiring) == .withdrawn }
    /// Whether it was given up while its code was running.
    package var isAbandoned: Bool { state.load(ordering: .acquiring) == .abandoned }
}
