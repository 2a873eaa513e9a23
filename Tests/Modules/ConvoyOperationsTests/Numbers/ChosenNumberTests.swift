import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests that numbers set by the user, including invalid times, do not crash the program.
@Suite struct ChosenNumberTests {
    static let odd: [Double] = [-.infinity, -1e300, -1, -0.0, 0, 1e-300, 0.5, 1e11, 1e300, .infinity, .nan]

    private func evaluate(_ policy: RetryPolicy, retryCount: Int, retryAfter: Double?, elapsed: Double) -> RetryEvent? {
        policy.evaluate(
            RetryPolicy.FailedAttempt(
                host: nil, method: "GET", statusCode: 503, error: nil, retryCount: retryCount, countedRetries: retryCount,
                elapsed: elapsed, retryAfter: retryAfter, canSendBodyAgain: true, nothingWasSent: false),
            random: 1)
    }

    @Test func `every retry policy yields a finite delay`() {
        var policy = RetryPolicy(maximumRetryCount: .max)
        policy.budget = nil
        for initial in Self.odd {
            for multiplier in Self.odd {
                for longest in Self.odd {
                    (policy.initialDelay, policy.multiplier, policy.maximumDelay) = (initial, multiplier, longest)
                    for count in [0, 1, 5_000, Int.max - 1] {
                        for limit in [nil, 0, .infinity, .nan] as [Double?] {
                            policy.maximumDuration = limit
                            let event = evaluate(policy, retryCount: count, retryAfter: nil, elapsed: 1)
                            guard case .retry(let delay) = event?.decision else {
                                #expect(event?.decision == .giveUp(.tookTooLong) && limit != nil)
                                continue
                            }
                            #expect(delay >= 0 && delay <= 1e9 && delay <= max(longest, 0) || longest.isNaN && delay == 0)
                        }
                    }
                }
            }
        }
    }

    @Test func `a negative delay counts as zero`() {
        var policy = RetryPolicy(maximumRetryCount: 1)
        policy.budget = nil
        policy.initialDelay = -5
        #expect(evaluate(policy, retryCount: 0, retryAfter: nil, elapsed: 0)?.decision == .retry(after: 0))
        #expect(evaluate(policy, retryCount: 0, retryAfter: 3, elapsed: 0)?.decision == .retry(after: 3))
    }

    @Test(arguments: odd) func `a failed attempt is retried or waits for any configured delay`(number: Double) throws {
        let server = try TestServer()
        server.route("GET", "/x", inTurn: [.status(503), .text("at last")])
        let probe = Probe(server.url("/x"))
        var policy = RetryPolicy(maximumRetryCount: 1)
        (policy.initialDelay, policy.multiplier, policy.maximumDelay) = (number, number, .infinity)
        policy.maximumGateDuration = number
        policy.budget = RetryBudget(share: number, reserve: 3)
        probe.operation.retryPolicy = policy
        let waiting = Signal()
        probe.operation.keepObserving(.isExecuting) { if $1.oldValue { waiting.fire() } }
        RequestOperationQueue().addOperation(probe.operation)
        if number <= 1 || number.isNaN {
            #expect(probe.outcome() == Probe.succeeded)
        } else {
            // The delay is a random fraction of the maximum; the cancellation comes long before it is over.
            #expect(waiting.wait())
            probe.operation.cancel()
            #expect(probe.outcome() == Probe.cancelled)
        }
    }

    @Test(arguments: odd) func `a retry budget with any share has its reserve`(share: Double) {
        let budget = RetryBudget(share: share, reserve: 2)
        #expect(budget.withdraw(forHost: "h") && budget.withdraw(forHost: "h") && !budget.withdraw(forHost: "h"))
        for _ in 0..<20 { budget.deposit(forHost: "h") }
        #expect(budget.withdraw(forHost: "h") == (share >= 0.1))
    }

    @Test func `every aging interval can be set`() {
        let queue = RequestOperationQueue()
        for interval in Self.odd {
            queue.priorityAgingInterval = interval
            let kept = queue.priorityAgingInterval
            if interval.isNaN {
                #expect(kept == nil)
            } else {
                #expect(kept == min(max(interval, 1e-9), 1e9))
            }
        }
        queue.priorityAgingInterval = nil
        #expect(queue.priorityAgingInterval == nil)
    }

    @Test(arguments: [.max, .max - 1, 1 << 63, 1 << 62, 1 << 62 - 1] as [UInt64])
    func `a distant deadline does not fire immediately`(deadline: UInt64) {
        let clock = MonotonicClock()
        let early = Atomic<Int>(0)
        let due = Signal()
        clock.schedule(at: deadline) { early.add(1, ordering: .relaxed) }
        clock.schedule(at: clock.now + 50_000_000) { due.fire() }
        #expect(due.wait() && early.load(ordering: .relaxed) == 0)
    }

    @Test(arguments: [Double.nan, -1, 0, .infinity, 1e300])
    func `an invalid timeout means no limit and leaves no transfer behind`(timeout: Double) throws {
        let server = try TestServer()
        server.route("GET", "/x", .text("x"))
        let transport = CoalescingTransport.over(NetworkThread.shared)
        var configuration = ConnectionConfiguration()
        configuration.maximumExpansion = timeout
        var request = URLRequest(url: server.url("/x"))
        request.timeoutInterval = timeout
        let ended = Signal()
        let connection = transport.connection(
            for: TransferRequest(request), configuration: configuration, delegate: Ended(ended))
        connection.start()
        #expect(ended.wait() && transport.transferCount == 0)
    }

    private final class Ended: ConnectionDelegate {
        let signal: Signal
        init(_ signal: Signal) { self.signal = signal }
        func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {}
        func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {}
        func connectionDidFinish(_ connection: any Connection) { signal.fire() }
        func connection(_ connection: any Connection, didFailWith error: URLError) {}
        func connectionDidCancel(_ connection: any Connection) {}
    }
}
