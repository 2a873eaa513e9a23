import ConvoySupport
import Foundation

/// The state that the server's thread shares with the threads that use the server.
final class ServerState: Sendable {
    struct Log: Sendable {
        var requests: [RecordedRequest] = []
        var unexpected: [RecordedRequest] = []
        var incomplete: [RecordedRequest] = []
        var statistics = TestServer.Statistics()
        var handshakeFailures: [String] = []
        var isStopped = false
    }

    let configuration: TestServer.Configuration
    let changes = ChangeSignal()
    let handlers = HandlerPool()
    private let routes = ContendedLock(RouteTable())
    private let log = ContendedLock(Log())
    private let expectations = Locked<[Expectation]>([])

    private let context: Locked<TLSContext?>

    init(_ configuration: TestServer.Configuration, tls: TLSContext?) {
        self.configuration = configuration
        context = Locked(tls)
    }

    // MARK: TLS

    /// The TLS context of new connections; nil without TLS.
    var tls: TLSContext? { context.withLock { $0 } }

    func setTLS(_ tls: TLSContext?) { context.withLock { $0 = tls } }

    // MARK: Routes

    func setRoute(_ action: RouteAction, _ options: TestServer.RouteOptions, _ method: String?, _ path: String) {
        // Release the old table outside the lock, because its closures may run any deinitializer.
        let old = routes.withLock { table in
            let old = table
            table.set(Route(action: action, options: options), method: method, path: path)
            return old
        }
        withExtendedLifetime(old) {}
    }

    func removeRoute(_ path: String) {
        let old = routes.withLock { table in
            let old = table
            table.remove(path: path)
            return old
        }
        withExtendedLifetime(old) {}
    }

    func removeAllRoutes() {
        let old = routes.withLock { table in
            defer { table = RouteTable() }
            return table
        }
        withExtendedLifetime(old) {}
    }

    func match(method: String, path: String) -> RouteTable.Match {
        routes.withLock { $0.match(method: method, path: path) }
    }

    // MARK: Log

    func read<Value: Sendable>(_ body: (Log) -> Value) -> Value {
        log.withLock { body($0) }
    }

    func update(_ change: (inout Log) -> Void) {
        log.withLock { change(&$0) }
        changes.raise()
    }

    func record(_ request: RecordedRequest, isExpected: Bool) {
        update { log in
            log.statistics.requestCount += 1
            if log.requests.count < configuration.recordingLimit { log.requests.append(request) }
            guard !isExpected else { return }
            log.statistics.unexpectedRequestCount += 1
            if log.unexpected.count < configuration.recordingLimit { log.unexpected.append(request) }
        }
    }

    // MARK: Expectations

    func add(_ expectation: Expectation) {
        expectations.withLock { $0.append(expectation) }
    }

    var expected: [Expectation] { expectations.withLock { $0 } }
}

/// A signal that wakes callers waiting for a change. Without waiters, raising it costs only a lock.
///
/// A waiter reads the generation, checks its condition, and then registers for that generation, so that it never misses
/// a change in between.
final class ChangeSignal: Sendable {
    private struct State {
        var generation: UInt64 = 0
        var nextWaiter: UInt64 = 0
        var waiters: [UInt64: @Sendable () -> Void] = [:]
    }

    private let state = ContendedLock(State())

    var generation: UInt64 { state.withLock { $0.generation } }

    /// Calls every waiter once, on the calling thread.
    func raise() {
        let waiters = state.withLock { state in
            state.generation &+= 1
            defer { state.waiters = [:] }
            return state.waiters
        }
        for wake in waiters.values { wake() }
    }

    /// Registers a waiter, which is called once. Returns nil, without registering it, if the generation has changed.
    func register(after generation: UInt64, _ wake: @escaping @Sendable () -> Void) -> UInt64? {
        state.withLock { state in
            guard state.generation == generation else { return nil }
            state.nextWaiter &+= 1
            state.waiters[state.nextWaiter] = wake
            return state.nextWaiter
        }
    }

    /// Removes a waiter and calls it, unless it has already been called.
    func fire(_ waiter: UInt64) {
        let wake = state.withLock { $0.waiters.removeValue(forKey: waiter) }
        wake?()
    }
}

/// The threads for the closures of routes: one per running closure, up to 512.
///
/// Neither Dispatch nor Swift's concurrency pool is suitable: both have only a few threads. Tests that block them would
/// prevent the handlers that they are waiting for from running.
final class HandlerPool: TaskExecutor {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var firstJob = 0
        var threads = 0
        var idle = 0
        var isClosed = false
    }

    private enum ExchangeStep {
        case run(@Sendable () -> Void)
        case rest
        case end
    }

    private static let limit = 512
    private let state = ContendedLock(State())
    private let work = DispatchSemaphore(value: 0)

    /// Runs a closure on one of the threads, starting a new thread if all are busy.
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

    /// Runs a job of an async route on one of the threads, as `TaskExecutor` requires.
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        perform { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }

    /// Ends the threads once all waiting closures have run. Later closures start new threads.
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
            let turn: ExchangeStep = state.withLock { state in
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
                    // Another thread may have consumed this thread's signal to end.
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
