import ConvoySupport
import Foundation

/// The state that the server's thread and its users share.
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

    /// The settings of TLS for new connections; nil without TLS.
    var tls: TLSContext? { context.withLock { $0 } }

    func setTLS(_ tls: TLSContext?) { context.withLock { $0 = tls } }

    // MARK: Routes

    func setRoute(_ action: RouteAction, _ options: TestServer.RouteOptions, _ method: String?, _ path: String) {
        // The replaced table is released outside the lock, as its closures may own any objects.
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
