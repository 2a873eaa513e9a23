import ConvoySupport
import Foundation

/// The state that the server's thread shares with its users.
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
        // The old table is released outside the lock, because its closures may run any deinitializer.
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

/// Wakes callers that wait for a change. Without waiters, it costs only a lock.
///
/// A waiter reads the generation, checks its condition, and then registers for that generation, so that a change in
/// between is never missed.
final class ChangeSignal: Sendable {
    private struct State {
        var generation: UInt64 = 0
        var nextWaiter: UInt64 = 0
        var waiters: [UInt64: @Sendable () -> Void] = [:]
    }

    private let state = ContendedLock(State())

    var generation: UInt64 { state.withLock { $0.generation } }

    /// Calls every waiter once, on this thread.
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

    /// Removes a waiter and calls it, if it has not been called.
    func fire(_ waiter: UInt64) {
        let wake = state.withLock { $0.waiters.removeValue(forKey: waiter) }
        wake?()
    }
}
