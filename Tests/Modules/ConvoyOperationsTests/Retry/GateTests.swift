import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// The effect of a 503 on other requests to the same host, with real responses and simulated time.
@Suite struct GateTests {
    let server: TestServer
    let clock = ManualClock()
    let queue: RequestOperationQueue

    init() throws {
        server = try TestServer()
        queue = RequestOperationQueue(clock: clock)
        server.route("GET", "/quick", .text("quick"))
        server.route("GET", "/busy", inTurn: [.status(503).header("Retry-After", "3600"), .text("at last")])
    }

    private func probe(_ path: String, _ policy: RetryPolicy?) -> Probe {
        let probe = Probe(server.url(path))
        probe.operation.change { $0.holder.clock = clock }
        probe.operation.retryPolicy = policy
        queue.addOperation(probe.operation)
        return probe
    }

    /// Returns a policy with its own budget, and no delay apart from that of the response.
    private func policy(gate: TimeInterval? = nil) -> RetryPolicy {
        var policy = RetryPolicy()
        policy.initialDelay = 0
        policy.budget = nil
        if let gate { policy.maximumGateDuration = gate }
        return policy
    }

    private func waitsForItsRetry(_ probe: Probe) -> Bool {
        eventually { probe.operation.retryCount == 1 && !probe.operation.isExecuting }
    }

    @Test func `a Retry-After of an hour delays other operations by a minute, if they have a policy`() throws {
        let busy = probe("/busy", policy())
        #expect(waitsForItsRetry(busy))
        #expect(probe("/quick", nil).outcome() == Probe.succeeded)
        let other = probe("/quick", policy())
        clock.advance(by: 59)
        #expect(!other.operation.isFinished && server.requests("/quick").count == 1)
        clock.advance(by: 1)
        #expect(other.outcome() == Probe.succeeded)
        #expect(queue.closedGates.isEmpty && server.requests("/busy").count == 1)
        // The operation whose response requested an hour waits for an hour.
        clock.advance(by: 3_539)
        #expect(!busy.operation.isFinished && server.requests("/busy").count == 1)
        clock.advance(by: 1)
        #expect(busy.outcome() == Probe.succeeded)
    }

    @Test func `a monitor is notified of a wait at the gate and its end, but not the retry handler`() throws {
        #expect(waitsForItsRetry(probe("/busy", policy())))
        let events = RetryEvents()
        let other = Probe(server.url("/quick"))
        other.operation.change { $0.holder.clock = clock }
        other.operation.retryPolicy = policy()
        let heard = Signal()
        other.operation.eventMonitors = [events.monitor(heard)]
        let calls = RetryEvents()
        other.operation.retryHandler = { calls.add($1) }
        queue.addOperation(other.operation)
        #expect(heard.wait())
        let event = try #require(events.all.first)
        let gate = try #require(queue.closedGates.first)
        guard case .waitAtGate(let until) = event.decision, case .closedGate(let host) = event.reason else {
            Issue.record("\(event)")
            return
        }
        #expect(host == gate.host && host == "127.0.0.1:\(server.port)")
        #expect(abs(until.timeIntervalSinceNow - 60) < 60 && abs(gate.opensAt.timeIntervalSince(until)) < 60)
        #expect(queue.openGate(forHost: host))
        #expect(other.outcome() == Probe.succeeded)
        #expect(events.all.count == 1 && calls.all.isEmpty)
        queue.cancelAllOperations()
    }

    @Test(arguments: [0.0, 10, 3600]) func `the policy limits how long a gate stays closed`(duration: Double) throws {
        #expect(waitsForItsRetry(probe("/busy", policy(gate: duration))))
        let other = probe("/quick", policy())
        if duration > 0 {
            clock.advance(by: duration - 1)
            #expect(!other.operation.isFinished && server.requests("/quick").isEmpty)
            clock.advance(by: 1)
        }
        #expect(other.outcome() == Probe.succeeded)
        queue.cancelAllOperations()
    }

    @Test func `a second refusal keeps the gate closed for at most another minute`() throws {
        server.route("GET", "/late", .status(503).header("Retry-After", "3600").held(by: gate))
        let late = probe("/late", policy())
        try server.waitForRequests(count: 1, timeout: 100)
        #expect(waitsForItsRetry(probe("/busy", policy())))
        let other = probe("/quick", policy())
        clock.advance(by: 30)
        gate.open()
        #expect(waitsForItsRetry(late))
        clock.advance(by: 59)
        #expect(server.requests("/quick").isEmpty)
        clock.advance(by: 1)
        #expect(other.outcome() == Probe.succeeded)
        queue.cancelAllOperations()
    }

    private let gate = TestServer.Gate()

    @Test func `an operation that waits at a gate can be cancelled and paused`() throws {
        #expect(waitsForItsRetry(probe("/busy", policy())))
        let (cancelled, paused) = (probe("/quick", policy()), probe("/quick", policy()))
        cancelled.operation.cancel()
        #expect(cancelled.outcome() == Probe.cancelled)
        paused.operation.pause()
        clock.advance(by: 60)
        #expect(paused.operation.isPaused && server.requests("/quick").isEmpty)
        paused.operation.resume()
        #expect(paused.outcome() == Probe.succeeded)
        queue.cancelAllOperations()
    }
}
