import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that limits, gates and budgets apply to the target host of a redirect.
@Suite struct RedirectHostTests {
    let first: TestServer
    let second: TestServer
    let clock = ManualClock()
    let queue: RequestOperationQueue
    let gate = TestServer.Gate()

    init() throws {
        first = try TestServer()
        second = try TestServer()
        queue = RequestOperationQueue(clock: clock)
        first.route("GET", "/quick", .text("quick"))
        second.route("GET", "/quick", .text("quick"))
        second.route("GET", "/held", .text("held").held(by: gate))
        for path in ["/quick", "/held", "/busy", "/file"] {
            first.redirect("/to\(path)", to: second.url(path).absoluteString)
        }
    }

    private func name(_ server: TestServer) -> String { "127.0.0.1:\(server.port)" }

    private func add(_ url: URL, _ policy: RetryPolicy? = nil) -> Probe {
        let probe = Probe(url)
        probe.operation.change { $0.holder.clock = clock }
        probe.operation.retryPolicy = policy
        queue.addOperation(probe.operation)
        return probe
    }

    private func policy(_ count: Int = 3, _ budget: RetryBudget? = nil) -> RetryPolicy {
        var policy = RetryPolicy(maximumRetryCount: count)
        policy.initialDelay = 0
        policy.budget = budget
        return policy
    }

    /// Returns the host that the operation counts towards.
    private func host(of probe: Probe) -> String? { queue.state.withLock { $0.host(of: probe.operation) } }

    /// Returns whether the redirect of an operation has arrived, and the other host has no slot for it.
    private func waitsBehindRedirect(_ probe: Probe, _ path: String) -> Bool {
        eventually { host(of: probe) == name(second) }
            && second.requests.allSatisfy { $0.path != path }
    }

    // MARK: Gates and budgets

    @Test func `the gate of the host that responded is closed`() throws {
        second.route("GET", "/busy", inTurn: [.status(429).header("Retry-After", "3"), .text("at last")])
        let busy = add(first.url("/to/busy"), policy())
        #expect(eventually { busy.operation.retryCount == 1 && !busy.operation.isExecuting })
        #expect(queue.closedGates.map(\.host) == [name(second)])
        #expect(add(first.url("/quick"), policy()).outcome() == Probe.succeeded)
        let others = [add(second.url("/quick"), policy()), add(first.url("/to/quick"), policy())]
        #expect(waitsBehindRedirect(others[1], "/quick"))
        // Operations without a policy pass the gate.
        #expect(add(first.url("/to/quick")).outcome() == Probe.succeeded)
        #expect(second.requests("/quick").count == 1 && others.allSatisfy { !$0.operation.isFinished })
        clock.advance(by: 3)
        for probe in others + [busy] { #expect(probe.outcome() == Probe.succeeded) }
        #expect(queue.closedGates.isEmpty)
    }

    @Test func `a wait at the other host's gate is reported to a monitor and holds no host slot`() throws {
        queue.maxConcurrentOperationCountPerHost = 1
        queue.closeGate(forHost: name(second), until: clock.now + 60_000_000_000)
        let events = RetryEvents()
        let heard = Signal()
        let probe = Probe(first.url("/to/quick"))
        probe.operation.change { $0.holder.clock = clock }
        probe.operation.retryPolicy = policy()
        probe.operation.eventMonitors = [events.monitor(heard)]
        queue.addOperation(probe.operation)
        #expect(heard.wait())
        guard case .closedGate(let host)? = events.all.first?.reason else {
            Issue.record("\(events.all)")
            return
        }
        #expect(host == name(second))
        #expect(add(first.url("/quick"), policy()).outcome() == Probe.succeeded)
        #expect(queue.openGate(forHost: host))
        #expect(probe.outcome() == Probe.succeeded)
    }

    @Test func `the gate of a redirect target that refuses connections is closed`() throws {
        second.stop()
        let probe = add(first.url("/to/quick"), policy(1))
        #expect(eventually { probe.operation.retryCount == 1 && !probe.operation.isExecuting })
        #expect(queue.closedGates.map(\.host) == [name(second)])
        #expect(add(first.url("/quick"), policy()).outcome() == Probe.succeeded)
        queue.cancelAllOperations()
        #expect(probe.outcome() == Probe.cancelled)
    }

    @Test func `a retry is charged to the budget of the host that failed`() throws {
        second.route("GET", "/busy", .status(500))
        let budget = RetryBudget(share: 0, reserve: 1)
        let probe = Probe(first.url("/to/busy"))
        probe.operation.retryPolicy = policy(5, budget)
        queue.addOperation(probe.operation)
        #expect(probe.outcome()?.count == 2)
        #expect(probe.operation.retryCount == 1 && probe.operation.retryRefusal == .budgetExhausted)
        #expect(!budget.withdraw(forHost: name(second)))
        #expect(budget.withdraw(forHost: name(first)))
    }

    @Test func `a failed redirect that is kept as the response is charged to the host that sent it`() throws {
        let place = second.url("/quick").absoluteString
        first.route("GET", "/kept", .pattern(count: 100).status(302).header("Location", place).truncated(afterBytes: 10))
        let budget = RetryBudget(share: 0, reserve: 1)
        let probe = Probe(first.url("/kept"))
        probe.operation.redirectHandler = { _, _, _ in nil }
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        probe.operation.responseSerializer = serializer
        probe.operation.retryPolicy = policy(5, budget)
        queue.addOperation(probe.operation)
        #expect(probe.outcome()?.count == 2)
        #expect(probe.operation.retryCount == 1 && probe.operation.redirects.map(\.outcome) == [.keptAsResponse])
        #expect(!budget.withdraw(forHost: name(first)))
        #expect(budget.withdraw(forHost: name(second)))
    }

    // MARK: Limits

    @Test func `two hosts that redirect to a third never exceed its limit`() throws {
        let others = [first, try TestServer()]
        queue.maxConcurrentOperationCountPerHost = 2
        second.route("GET", "/slow", .text("slow").delayed(0.005))
        for server in others { server.redirect("/to/slow", to: second.url("/slow").absoluteString) }
        let probes = (0..<40).map { add(others[$0 % 2].url("/to/slow")) } + (0..<10).map { _ in add(second.url("/slow")) }
        for probe in probes { #expect(probe.outcome() == Probe.succeeded) }
        #expect(second.requests("/slow").count == 50)
        #expect(second.statistics.peakActiveRequestCount <= 2)
    }

    @Test func `two hosts that redirect to each other do not wait for each other`() throws {
        queue.maxConcurrentOperationCountPerHost = 1
        let both = [TestServer.Gate(), TestServer.Gate()]
        first.route("GET", "/go", .redirect(to: second.url("/quick").absoluteString).held(by: both[0]))
        second.route("GET", "/go", .redirect(to: first.url("/quick").absoluteString).held(by: both[1]))
        let probes = [add(first.url("/go")), add(second.url("/go"))]
        // Each operation holds the only slot of the host to which the other is redirected.
        for server in [first, second] { try server.waitForRequests(count: 1, timeout: patience) }
        for gate in both { gate.open() }
        for probe in probes { #expect(probe.outcome() == Probe.succeeded) }
    }

    @Test func `operations that wait for the other host occupy at most the queue's slots`() throws {
        queue.maxConcurrentOperationCount = 3
        queue.closeGate(forHost: name(second), until: clock.now + 60_000_000_000)
        let probes = (0..<20).map { _ in add(first.url("/to/quick"), policy()) }
        for probe in probes.prefix(3) { #expect(waitsBehindRedirect(probe, "/quick")) }
        #expect(queue.state.withLock { $0.running } == 3)
        #expect(first.requests("/to/quick").count == 3 && probes[3].operation.state == .ready)
        // A cancelled operation makes room for the next one, and takes no slot of the host.
        probes[0].operation.cancel()
        #expect(probes[0].outcome() == Probe.cancelled)
        #expect(waitsBehindRedirect(probes[3], "/quick"))
        #expect(queue.openGate(forHost: name(second)))
        for probe in probes.dropFirst() { #expect(probe.outcome() == Probe.succeeded) }
        #expect(eventually { queue.queuedOperationCount == 0 })
    }

    @Test func `an operation that waits for the other host ignores an exhausted start rate`() throws {
        queue.maxConcurrentOperationCountPerHost = 1
        queue.maximumStartRate = StartRate(perSecond: 0.001, burst: 2)
        queue.maximumStartRatePerHost = StartRate(perSecond: 0.001)
        let holder = add(second.url("/held"))
        try second.waitForRequests(count: 1, timeout: patience)
        let moved = add(first.url("/to/quick"))
        #expect(waitsBehindRedirect(moved, "/quick"))
        gate.open()
        for probe in [holder, moved] { #expect(probe.outcome() == Probe.succeeded) }
    }

    @Test func `an operation that waits for the other host has returned its own host's slot`() throws {
        queue.maxConcurrentOperationCountPerHost = 1
        queue.maxConcurrentOperationCount = 3
        let holder = add(second.url("/held"))
        try second.waitForRequests(count: 1, timeout: patience)
        let moved = add(first.url("/to/quick"))
        #expect(waitsBehindRedirect(moved, "/quick"))
        #expect(moved.operation.isExecuting)
        // This operation takes the last slot of the queue and that of the first host.
        #expect(add(first.url("/quick")).outcome() == Probe.succeeded)
        // The redirected operation was started earlier than the operations waiting for their start.
        let late = add(second.url("/quick"))
        gate.open()
        for probe in [holder, moved, late] { #expect(probe.outcome() == Probe.succeeded) }
        #expect(second.statistics.peakActiveRequestCount == 1)
    }

    @Test func `an operation that waits for the other host continues in a suspended queue`() throws {
        queue.maxConcurrentOperationCountPerHost = 1
        let holder = add(second.url("/held"))
        try second.waitForRequests(count: 1, timeout: patience)
        let moved = (0..<3).map { _ in add(first.url("/to/quick")) }
        for probe in moved { #expect(waitsBehindRedirect(probe, "/quick")) }
        let late = add(second.url("/quick"))
        queue.isSuspended = true
        gate.open()
        for probe in moved + [holder] { #expect(probe.outcome() == Probe.succeeded) }
        #expect(late.operation.state == .ready && second.requests("/quick").count == 3)
        queue.isSuspended = false
        #expect(late.outcome() == Probe.succeeded)
        #expect(second.statistics.peakActiveRequestCount == 1)
    }

    @Test func `an operation that waits for the other host can be cancelled, paused or time out`() throws {
        queue.maxConcurrentOperationCountPerHost = 1
        let holder = add(second.url("/held"))
        try second.waitForRequests(count: 1, timeout: patience)
        let (cancelled, paused, late) = (
            add(first.url("/to/quick")), add(first.url("/to/quick")), Probe(first.url("/to/quick"))
        )
        late.operation.totalTimeout = 60
        late.operation.change { $0.holder.clock = clock }
        queue.addOperation(late.operation)
        for probe in [cancelled, paused, late] { #expect(waitsBehindRedirect(probe, "/quick")) }
        cancelled.operation.cancel()
        #expect(cancelled.outcome() == Probe.cancelled)
        paused.operation.pause()
        clock.advance(by: 60)
        #expect(late.outcome() == ["failure \(URLError.timedOut.rawValue)", "completion"])
        #expect(paused.operation.isPaused && !holder.operation.isFinished)
        gate.open()
        #expect(holder.outcome() == Probe.succeeded)
        #expect(second.requests("/quick").isEmpty)
        paused.operation.resume()
        #expect(paused.outcome() == Probe.succeeded)
        // The next attempt begins at the target of the operation's own request.
        #expect(first.requests("/to/quick").count == 4)
    }

    @Test func `an operation that restarts immediately uses a slot of its own host`() throws {
        queue.maxConcurrentOperationCountPerHost = 1
        let content = PatternBytes.data(count: 100_000)
        let count = Locked(0)
        // The first response is truncated, and the rest does not match, so the complete body is requested again.
        second.route("GET", "/file") { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number == 1 { return .bytes(content).header("ETag", "\"a\"").truncated(afterBytes: 50_000) }
            if number == 2 {
                return .bytes(content, status: 206).header("ETag", "\"b\"").header(
                    "Content-Range", "bytes 50000-149999/150000")
            }
            return .bytes(content).header("ETag", "\"b\"")
        }
        let probe = Probe(first.url("/to/file"))
        probe.operation.retryPolicy = policy()
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == Probe.succeeded)
        #expect(probe.operation.responseData == content && first.requests("/to/file").count == 3)
        #expect(queue.queuedOperationCount == 0)
        #expect(add(first.url("/to/quick")).outcome() == Probe.succeeded)
    }
}
