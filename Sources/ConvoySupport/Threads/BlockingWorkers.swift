import Foundation
import Synchronization

/// Threads for calls that may block: a user's streams, a user's `prepare`.
///
/// They are not libdispatch's: its pool is small, and a few slow streams would exhaust it. A thread is made when work
/// arrives and none is idle, and ends after it has been idle for a while.
package final class BlockingWorkers: @unchecked Sendable {
    package typealias Job = @Sendable () -> Void

    /// At most 1,024 threads: with the usual limit of 1,024 open files there cannot be more transfers, so each may have
    /// a blocked thread. Systems allow a process many more. A waiting thread costs about 30 KB, half of it in the
    /// kernel.
    package static let shared = BlockingWorkers(limit: 1024)

    /// What is to be run, as a call that can be given up or as one that cannot.
    private struct Entry {
        let job: Job
        let call: BlockingCall?
    }

    private struct State {
        var jobs = Backlog<Entry>()
        /// All threads, including the one that is being made, without those that were given up.
        var threads = 0
        var idle = 0
        /// Whether a thread is being made. It starts the next one, if needed, before it does anything else.
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

    /// Runs the block on one of the threads; later, if all of them are busy and the limit is reached.
    package func perform(_ job: @escaping Job) { append(Entry(job: job, call: nil)) }

    /// The same for a job that may never return. If `call` is given up before the job has begun, the job does not run;
    /// otherwise it has to ask `call.finish()` at its end whether anybody wants what it has done.
    package func perform(_ call: BlockingCall, _ job: @escaping Job) { append(Entry(job: job, call: call)) }

    /// Makes up for the thread of a call that was given up: it no longer counts, and ends when the job returns.
    package func replaceThread(of call: BlockingCall) {
        guard call.isAbandoned else { return }
        condition.lock()
        state.threads -= 1
        let needsThread = reserveThread()
        condition.unlock()
        if needsThread { startThread() }
    }

    private func append(_ entry: Entry) {
        condition.lock()
        state.jobs.append(entry)
        let needsThread = reserveThread()
        if !needsThread { condition.signal() }
        condition.unlock()
        if needsThread { startThread() }
    }

    /// Whether the caller must start a thread, which is already counted. Under the lock.
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
            // The other threads do the work, and try again to start one whenever they take a job. If there is no other,
            // a libdispatch thread runs the jobs this once, so that none is lost.
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
            // Another thread is there in its place.
            if call.isAbandoned { return }
        }
    }

    /// The next job, or nil if none has come for ten seconds, and the thread must end.
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

/// A call of code that may never return, which can be given up.
///
/// Exactly one of ``finish()`` and ``giveUp()`` returns true, so whoever goes on, goes on alone.
package final class BlockingCall: Sendable {
    enum State: UInt8, AtomicRepresentable {
        /// No thread has taken it yet.
        case waiting
        case running
        /// The code has returned, and whoever made the call takes its result.
        case finished
        /// Given up before a thread had taken it: the code will not be called.
        case withdrawn
        /// Given up while the code was running. The thread is lost until the code returns.
        case abandoned
    }

    private let state = Atomic<State>(.waiting)

    package init() {}

    /// Notes that a thread calls the code now. False if the call was given up.
    func begin() -> Bool {
        state.compareExchange(expected: .waiting, desired: .running, ordering: .acquiringAndReleasing).exchanged
    }

    /// The code has returned. To be called on its thread. False if the call was given up: its result is not wanted.
    package func finish() -> Bool {
        state.compareExchange(expected: .running, desired: .finished, ordering: .acquiringAndReleasing).exchanged
    }

    /// Gives the call up. False if its code has returned before, or it was given up before. Takes no lock. Tell
    /// ``BlockingWorkers/replaceThread(of:)`` about it afterwards.
    package func giveUp() -> Bool {
        if state.compareExchange(expected: .waiting, desired: .withdrawn, ordering: .acquiringAndReleasing).exchanged {
            return true
        }
        return state.compareExchange(expected: .running, desired: .abandoned, ordering: .acquiringAndReleasing).exchanged
    }

    /// Whether it was given up before its code was called, so that the code will not be called.
    package var isWithdrawn: Bool { state.load(ordering: .acquiring) == .withdrawn }
    /// Whether it was given up while its code was running.
    package var isAbandoned: Bool { state.load(ordering: .acquiring) == .abandoned }
}
