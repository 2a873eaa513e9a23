import ConvoyCache
import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Promise 9: a caller's mistake produces a typed error, or is reported once if nothing fails: a wait that nothing ends, a
/// setting without effect.
@Suite final class MisuseTests: Sendable {
    private let lines = Locked<[String]>([])

    private func wait(_ patience: TimeInterval = 0.05) -> UsageWarning {
        UsageWarning("stuck", patience: patience) { [self] line in lines.withLock { $0.append(line) } }
    }

    @Test(arguments: [
        "ftp://127.0.0.1/x", "file:///etc/passwd", "http:///nohost", "relative", "gopher://127.0.0.1/",
    ])
    func `a URL that cannot be loaded is a typed error`(text: String) throws {
        let probe = Probe(try #require(URL(string: text)))
        RequestOperationQueue().addOperation(probe.operation)
        let outcome = try #require(probe.outcome())
        #expect(
            [URLError.badURL.rawValue, URLError.unsupportedURL.rawValue].map { ["failure \($0)", "completion"] }
                .contains(outcome))
    }

    @Test func `a completion queue that does not run is reported once`() async throws {
        let queue = DispatchQueue(label: "idle", attributes: .initiallyInactive)
        let wait = wait()
        for _ in 0..<3 { wait.probe(queue) }
        #expect(eventually { !lines.withLock(\.isEmpty) })
        wait.watch { true }
        let end = Event()
        MonotonicClock().schedule(at: Nanoseconds.deadline(0.2, after: MonotonicClock().now)) { end.signal() }
        await end.wait()
        #expect(lines.withLock { $0 } == ["stuck"])
        queue.activate()
    }

    @Test func `a queue that runs and a wait that has ended are not reported`() async throws {
        let wait = wait(), end = Event()
        wait.probe(testQueue)
        wait.watch { false }
        MonotonicClock().schedule(at: Nanoseconds.deadline(0.3, after: MonotonicClock().now)) { end.signal() }
        await end.wait()
        #expect(lines.withLock { $0 } == [])
    }

    @Test func `an operation is unclaimed until it is enqueued, started, paused or promised to a queue`() throws {
        let server = try TestServer()
        let make = { HTTPRequestOperation(request: URLRequest(url: server.url("/"))) }
        let operations = (0..<4).map { _ in make() }
        #expect(operations.allSatisfy { $0.isUnclaimed })
        RequestOperationQueue().addOperation(operations[0])
        operations[1].start()
        operations[2].pause()
        operations[3].claim()
        #expect(!operations.contains { $0.isUnclaimed })
    }

    @Test func `waiting for a dependency that nothing starts is reported`() {
        let queue = RequestOperationQueue()
        let waiting = ScheduledBlockOperation {}, unstarted = ScheduledBlockOperation {}
        waiting.addDependency(unstarted)
        queue.addOperation(waiting)
        #expect(eventually { UsageWarning.unstartedDependency.wasGiven })
        queue.addOperation(unstarted)
        #expect(eventually { waiting.isFinished })
    }

    @Test func `waiting for an enqueued, cancelled or released dependency is not reported`() async throws {
        let queue = RequestOperationQueue(), warning = wait(), end = Event()
        queue.isSuspended = true
        let waiting = (0..<3).map { _ in ScheduledBlockOperation {} }
        for operation in waiting { queue.addOperation(operation) }
        var dependencies = (0..<3).map { _ in ScheduledBlockOperation {} }
        for (operation, dependency) in zip(waiting, dependencies) {
            operation.addDependency(dependency)
            operation.watchDependencies(warning)
        }
        queue.addOperation(dependencies[0])
        waiting[1].cancel()
        waiting[2].removeDependency(dependencies[2])
        dependencies.removeLast()
        MonotonicClock().schedule(at: Nanoseconds.deadline(0.3, after: MonotonicClock().now)) { end.signal() }
        await end.wait()
        #expect(!warning.wasGiven)
        let stuck = ScheduledBlockOperation {}
        stuck.addDependency(dependencies[1])
        stuck.watchDependencies(warning)
        #expect(eventually { warning.wasGiven })
        queue.isSuspended = false
    }

    @Test func `changing a setting after the attempt has read it is reported`() async throws {
        let server = try TestServer()
        server.route("/", .redirect(to: "/end"))
        server.route("/end", .text("text"))
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/")))
        let moments = Locked<[Bool]>([])
        let note: @Sendable (HTTPRequestOperation?) -> Void = { operation in
            if let operation { moments.withLock { $0.append(operation.isTooLateForSettings) } }
        }
        note(operation)
        operation.prepare = { [weak operation] _ in note(operation) }
        operation.redirectHandler = { [weak operation] _, request, _ in
            note(operation)
            return request
        }
        try await operation.finished()
        note(operation)
        #expect(moments.withLock { $0 } == [false, false, true, true])
        operation.outputStream = OutputStream(toMemory: ())
        #expect(UsageWarning.lateSetting.wasGiven)
    }

    @Test func `sending a replayable body again is not reported as a late setting`() async throws {
        let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
            let transport = ScriptedTransport([.unsent, .answer])
            var request = URLRequest(url: try #require(URL(string: "http://example.com/x")))
            request.httpMethod = "POST"
            request.httpBodyStream = ReplayableText("body")
            let operation = HTTPRequestOperation(request: request, transport: transport)
            operation.completionQueue = testQueue
            try await operation.finished()
            #expect(transport.paths.count == 2)
        }
        let warning = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(!warning.contains("inputStream"))
    }

    @Test func `the settings that an attempt reads at its start are named in the warning`() {
        let changes: [(String, (inout RequestSettings) -> Void)] = [
            ("cache", { $0.cache = HTTPCache() }),
            ("coalescesIdenticalRequests", { $0.coalescesIdenticalRequests = true }),
            ("collectsMetrics", { $0.collectsMetrics = true }),
            ("completionGroup", { $0.completionGroup = DispatchGroup() }),
            ("cookieStore", { $0.cookieStore = CookieStore() }),
            ("dependencyFailurePolicy", { $0.dependencyFailurePolicy = .cancel }),
            ("identity", { $0.identity = "ada" }),
            ("idleTimeout", { $0.idleTimeout = 1 }),
            ("maximumBodySize", { $0.maximumBodySize = 1 }),
            ("receiveRateLimit", { $0.values.receiveRateLimit = RateLimit(bytesPerSecond: 1) }),
            ("securityPolicy", { $0.securityPolicy.revocationLists = [URL(filePath: "/list")] }),
            ("sendRateLimit", { $0.values.sendRateLimit = RateLimit(bytesPerSecond: 1) }),
            ("stallLimit", { $0.stallLimit = StallLimit(bytesPerSecond: 1, duration: 1) }),
            ("totalTimeout", { $0.totalTimeout = 1 }),
            ("connectionConfiguration", { $0.connectionConfiguration.maximumRedirects = 1 }),
        ]
        let old = RequestSettings()
        for (name, change) in changes {
            var new = old
            change(&new)
            #expect(new.values.lateChange(from: old.values) == name)
        }
        var new = old
        (new.completionQueue, new.userInfo, new.retryPolicy) = (testQueue, ["a": 1], RetryPolicy())
        new.responseSerializer = JSONResponseSerializer()
        #expect(new.values.lateChange(from: old.values) == nil)
    }

    /// An event that a test awaits.
    private struct Event: Sendable {
        private let stream = AsyncStream<Void>.makeStream()
        func signal() { stream.continuation.finish() }
        func wait() async { for await _ in stream.stream {} }
    }
}
