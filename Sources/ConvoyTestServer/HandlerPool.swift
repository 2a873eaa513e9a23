import ConvoySupport
import Foundation

/// Threads for the closures of routes: as many as there are running closures, up to 512.
///
/// Neither Dispatch nor Swift's concurrency pool is suitable: both have only a few threads, which blocking tests would
/// take away from the handlers that they wait for.
final class HandlerPool: TaskExecutor {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var firstJob = 0
        var threads = 0
        var idle = 0
        var isClosed = false
    }

    private enum Turn {
        case run(@Sendable () -> Void)
        case rest
        case end
    }

    private static let limit = 512
    private let state = ContendedLock(State())
    private let work = DispatchSemaphore(value: 0)

    /// Runs a closure on one of the threads, starting a new one if all are busy.
    func perform(_ job: @escaping @Sendable () -> Void) {
        let needsThread = state.withLock { state in
            state.jobs.append(job)
            let waiting = state.jobs.count - state.firstJob
            guard state.idle < waiting, state.threads < Self.limit else { return false }
            state.threads += 1
            state.idle += 1
            return true
        }
        work.signal()
        guard needsThread else { return }
        let thread = Thread { @Sendable [self] in run() }
        thread.name = "Convoy.TestHandler"
        thread.start()
    }

    /// Part of `TaskExecutor`: async routes run on the same threads.
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        perform { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }

    /// Ends the threads when all waiting closures have run. Later closures start new threads.
    func close() {
        let threads = state.withLock { state in
            state.isClosed = true
            return state.threads
        }
        for _ in 0..<threads { work.signal() }
    }

    private func run() {
        while true {
            work.wait()
            let turn: Turn = state.withLock { state in
                if state.firstJob < state.jobs.count {
                    let job = state.jobs[state.firstJob]
                    state.firstJob += 1
                    if state.firstJob == state.jobs.count {
                        state.jobs.removeAll(keepingCapacity: true)
                        state.firstJob = 0
                    }
                    state.idle -= 1
                    return .run(job)
                }
                guard state.isClosed else { return .rest }
                state.idle -= 1
                state.threads -= 1
                return .end
            }
            switch turn {
            case .run(let job):
                job()
                let ends = state.withLock { state in
                    // Another thread may have consumed this one's signal to end.
                    if state.isClosed, state.firstJob == state.jobs.count {
                        state.threads -= 1
                        return true
                    }
                    state.idle += 1
                    return false
                }
                if ends { return }
            case .rest: continue
            case .end: return
            }
        }
    }
}
