import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Retries: their conditions, times and number, and their effect on other operations.
@Suite struct RetryTests {
    let server: TestServer
    let queue = RequestOperationQueue()

    init() throws { server = try TestServer() }

    /// Returns a policy with its own budget and short delays.
    private func policy(_ count: Int = 3, reserve: Int = 1_000) -> RetryPolicy {
        var policy = RetryPolicy(maximumRetryCount: count)
        policy.initialDelay = 0.02
        policy.budget = RetryBudget(share: 0, reserve: reserve)
        return policy
    }

    private func run(_ path: String, method: String = "GET", _ policy: RetryPolicy, body: Data? = nil) throws -> Probe {
        let probe = Probe(server.url(path), method: method)
        probe.operation.retryPolicy = policy
        if let body { probe.operation.inputStream = InputStream(data: body) }
        queue.addOperation(probe.operation)
        _ = try #require(probe.outcome(within: 100))
        return probe
    }

    @Test(arguments: [408, 429, 500, 502, 503, 504]) func `a temporary status is retried`(status: Int) throws {
        server.route("GET", "/x", inTurn: [.status(status), .status(status), .text("at last")])
        let probe = try run("/x", policy())
        #expect(probe.operation.error == nil && probe.operation.responseString == "at last")
        #expect(probe.operation.retryCount == 2 && server.requests.count == 3)
    }

    @Test(arguments: [400, 401, 404, 501, 505]) func `a permanent status is not retried`(status: Int) throws {
        server.route("GET", "/x", .status(status))
        #expect(try run("/x", policy()).operation.error != nil)
        #expect(server.requests.count == 1)
    }

    @Test func `a lost connection is retried, and the last failure is the error`() throws {
        server.route("GET", "/x", .text("x").resetBeforeHead())
        let probe = try run("/x", policy(2))
        #expect(probe.error?.code == .networkConnectionLost)
        #expect(server.requests.count == 3)
    }

    @Test func `a request that is not idempotent is retried only if nothing was sent`() throws {
        server.route("POST", "/x", .status(503))
        #expect(try run("/x", method: "POST", policy()).operation.retryCount == 0)
        #expect(server.requests.count == 1)
        server.stop()
        let probe = try run("/x", method: "POST", policy(2))
        #expect(probe.error?.code == .cannotConnectToHost && probe.operation.retryCount == 2)
    }

    @Test func `a one-shot body is sent once`() throws {
        server.route("PUT", "/x", .status(503))
        let events = RetryEvents()
        let probe = Probe(server.url("/x"), method: "PUT")
        probe.operation.inputStream = InputStream(data: Data("once".utf8))
        probe.operation.retryPolicy = policy()
        probe.operation.retryHandler = { events.add($1) }
        queue.addOperation(probe.operation)
        #expect(probe.outcome()?.count == 2)
        #expect(server.requests.count == 1)
        #expect(events.decisions == [.giveUp(.bodyCannotBeSentAgain)])
    }

    /// libcurl itself would send the request again, but cannot rewind a body of this length.
    @Test func `a long replayable body is sent again over another connection`() throws {
        let data = PatternBytes.data(count: 1 << 20)
        server.route("GET", "/x", .text("x"))
        server.route("PUT", "/x", inTurn: [.status(200).resetBeforeHead(), .text("stored")])
        #expect(try run("/x", policy()).operation.error == nil)
        let directory = try TemporaryDirectory()
        let file = try directory.write(data, to: "file")
        let request = try HTTPRequestSerializer().request(
            method: .put, url: server.url("/x"), query: nil, headers: [:], body: .file(file))
        let probe = Probe(server.url("/x"), method: "PUT")
        probe.operation.inputStream = request.httpBodyStream
        probe.operation.retryPolicy = policy()
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == Probe.succeeded)
        #expect(server.requests("PUT", "/x").map(\.body) == [data, data])
    }

    @Test func `the retry handler receives each decision with its reason`() throws {
        server.route("GET", "/x", .status(502))
        let events = RetryEvents()
        let probe = Probe(server.url("/x"))
        probe.operation.retryPolicy = policy(1)
        probe.operation.retryHandler = { events.add($1) }
        queue.addOperation(probe.operation)
        #expect(probe.outcome()?.count == 2)
        let decisions = events.decisions
        #expect(decisions.count == 2)
        guard case .retry(let delay) = decisions.first else {
            Issue.record("\(decisions)")
            return
        }
        #expect(delay >= 0 && delay <= 0.02)
        #expect(decisions.last == .giveUp(.tooManyRetries))
    }

    @Test func `an operation does not wait longer than its timeout allows`() throws {
        server.route("GET", "/x", .status(503).header("Retry-After", "3000"))
        let probe = Probe(server.url("/x"))
        probe.operation.retryPolicy = policy()
        probe.operation.totalTimeout = 600
        queue.addOperation(probe.operation)
        _ = try #require(probe.outcome())
        #expect((probe.operation.error as? HTTPError)?.statusCode == 503)
        #expect(probe.operation.retryRefusal == .tookTooLong)
        #expect(server.requests.count == 1)
    }

    @Test func `Retry-After is the minimum delay`() throws {
        server.route("GET", "/x", inTurn: [.status(503).header("Retry-After", "10"), .text("now")])
        let clock = ManualClock()
        let probe = Probe(server.url("/x"))
        probe.operation.change { $0.holder.clock = clock }
        probe.operation.retryPolicy = policy()
        probe.operation.start()
        #expect(eventually { clock.timerCount == 1 })
        clock.advance(by: 9.9)
        #expect(clock.timerCount == 1 && probe.operation.retryCount == 1 && server.requests.count == 1)
        clock.advance(by: 0.2)
        #expect(probe.outcome() == Probe.succeeded)
    }

    @Test func `a server that requests too long a delay gets no retry`() throws {
        server.route("GET", "/x", .status(503).header("Retry-After", "86400"))
        #expect(try run("/x", policy()).operation.retryCount == 0)
    }

    @Test func `a retried download resumes where it stopped`() throws {
        let content = PatternBytes.data(count: 2_000_000)
        let isFirst = Atomic<Bool>(true)
        server.serve(content, at: "/file", etag: "\"v1\"") { _, response in
            isFirst.exchange(false, ordering: .relaxed) ? response.truncated(afterBytes: 1_500_000) : response
        }
        let probe = try run("/file", policy())
        #expect(probe.operation.responseData == content)
        let range = try #require(server.requests.last?.headers["Range"])
        #expect(range.hasPrefix("bytes=") && range != "bytes=0-")
    }

    @Test func `retries that make progress do not count towards the maximum`() throws {
        let content = PatternBytes.data(count: 2_000_000)
        server.serve(content, at: "/file", etag: "\"v1\"") { _, response in response.truncated(afterBytes: 200_000) }
        let probe = try run("/file", policy(2))
        #expect(probe.operation.responseData == content && probe.operation.error == nil)
        #expect(probe.operation.retryCount > 2)
    }

    @Test func `the first byte of a short body counts as progress`() throws {
        let content = PatternBytes.data(count: 10)
        let count = Atomic<Int>(0)
        server.serve(content, at: "/file", etag: "\"v1\"") { _, response in
            switch count.add(1, ordering: .relaxed).oldValue {
            case 0: response.resetBeforeHead()
            case 1: response.truncated(afterBytes: 1)
            default: response
            }
        }
        let probe = try run("/file", policy(1))
        #expect(probe.operation.responseData == content && probe.operation.error == nil)
        #expect(probe.operation.retryCount == 2)
    }

    @Test(arguments: [100, 15_000, 1_500_000])
    func `retries without progress count towards the maximum`(length: Int) throws {
        let content = PatternBytes.data(count: 2_000_000)
        // Without a validator, each attempt starts over.
        server.serve(content, at: "/file", etag: nil) { _, response in response.truncated(afterBytes: length) }
        let probe = try run("/file", policy(2))
        #expect(probe.error?.code == .networkConnectionLost)
        #expect(probe.operation.retryCount == 2 && server.requests.count == 3)
    }

    @Test(arguments: [429, 503]) func `an overloaded server gets at least half of the backoff delay`(status: Int) {
        func delay(_ random: Double, after: TimeInterval? = nil, status: Int) -> TimeInterval? {
            let failure = RetryPolicy.FailedAttempt(
                method: "GET", statusCode: status, retryCount: 1, countedRetries: 1, elapsed: 0, retryAfter: after,
                canSendBodyAgain: true, nothingWasSent: false)
            guard case .retry(let delay) = RetryPolicy().evaluate(failure, random: random)?.decision else { return nil }
            return delay
        }
        // The second step is one second long.
        #expect(delay(0, status: status) == 0.5 && delay(1, status: status) == 1)
        #expect(delay(0, after: 3, status: status) == 3 && delay(1, after: 3, status: status) == 4)
        #expect(delay(0, status: 500) == 0)
    }

    /// Returns the decision of a policy with ten retries about a failed GET.
    private func decision(
        _ status: Int, countedRetries: Int = 1, elapsed: TimeInterval = 0, after: TimeInterval? = nil,
        limit: TimeInterval? = nil, random: Double
    ) -> RetryEvent.Decision? {
        var policy = RetryPolicy(maximumRetryCount: 10)
        policy.maximumDuration = limit
        policy.budget = nil
        let failure = RetryPolicy.FailedAttempt(
            method: "GET", statusCode: status, retryCount: countedRetries, countedRetries: countedRetries, elapsed: elapsed,
            retryAfter: after, canSendBodyAgain: true, nothingWasSent: false)
        return policy.evaluate(failure, random: random)?.decision
    }

    @Test func `a requested delay is exceeded by at most one random second`() {
        // The sixth step is 16 s long.
        #expect(decision(503, countedRetries: 5, random: 1) == .retry(after: 16))
        #expect(decision(503, countedRetries: 5, after: 10, random: 1) == .retry(after: 11))
        #expect(decision(503, countedRetries: 5, after: 10, random: 0.03125) == .retry(after: 10.5))
        #expect(decision(503, countedRetries: 5, after: 10, random: 0) == .retry(after: 10))
    }

    @Test func `an operation is not retried after the maximum duration`() {
        // The second step is one second long.
        #expect(decision(500, elapsed: 9, limit: 10, random: 1) == .retry(after: 1))
        #expect(decision(500, elapsed: 9.25, limit: 10, random: 1) == .giveUp(.tookTooLong))
        #expect(decision(500, elapsed: 9.25, limit: 10, random: 0.5) == .retry(after: 0.5))
        #expect(decision(500, elapsed: 7, after: 3, limit: 10, random: 0) == .retry(after: 3))
        #expect(decision(500, elapsed: 7.25, after: 3, limit: 10, random: 0) == .giveUp(.tookTooLong))
    }

    @Test func `a waiting retry holds no slot`() throws {
        server.route("GET", "/failing", inTurn: [.status(500).header("Retry-After", "1"), .text("late")])
        server.route("GET", "/quick", .text("quick"))
        queue.maxConcurrentOperationCount = 1
        let (failing, quick) = (Probe(server.url("/failing")), Probe(server.url("/quick")))
        failing.operation.retryPolicy = policy()
        queue.addOperations([failing.operation, quick.operation], waitUntilFinished: false)
        #expect(quick.outcome() == Probe.succeeded)
        #expect(!failing.operation.isFinished)
        #expect(failing.outcome() == Probe.succeeded)
        #expect(failing.operation.responseString == "late")
    }

    @Test func `a waiting retry can be cancelled and paused`() throws {
        server.route("GET", "/x", .status(500).header("Retry-After", "3600"))
        let waiting = Signal()
        for pauses in [false, true] {
            let probe = Probe(server.url("/x"))
            probe.operation.retryPolicy = policy()
            probe.operation.keepObserving(.isExecuting) { if $1.oldValue { waiting.fire() } }
            queue.addOperation(probe.operation)
            #expect(waiting.wait())
            if pauses {
                probe.operation.pause()
                #expect(probe.operation.isPaused)
                server.removeRoute("/x")
                server.route("GET", "/x", .text("fine now"))
                probe.operation.resume()
                #expect(probe.outcome() == Probe.succeeded)
            } else {
                probe.operation.cancel()
                #expect(probe.outcome() == Probe.cancelled)
            }
        }
    }

    @Test func `the budget prevents retries from amplifying an outage`() throws {
        server.route("GET", "/x", .status(500))
        let shared = policy(100, reserve: 5)
        let probes = (0..<20).map { _ in
            let probe = Probe(server.url("/x"))
            probe.operation.retryPolicy = shared
            return probe
        }
        queue.addOperations(probes.map(\.operation), waitUntilFinished: false)
        for probe in probes { #expect(probe.outcome() != nil) }
        #expect(server.requests.count == 25)
    }

    @Test func `a failure caused by an exhausted budget contains that reason`() throws {
        server.route("GET", "/x", .text("x").resetBeforeHead())
        server.route("GET", "/y", .status(500))
        for path in ["/x", "/y"] {
            let probe = try run(path, policy(5, reserve: 1))
            #expect(probe.operation.retryCount == 1 && probe.operation.retryRefusal == .budgetExhausted)
            let userInfo = (try #require(probe.operation.error) as NSError).userInfo
            let refusal = userInfo[URLError.retryRefusalKey] as? RetryEvent.Refusal
            #expect(refusal == .budgetExhausted, "\(path)")
            let reason = userInfo[NSLocalizedFailureReasonErrorKey] as? String
            #expect(reason?.contains("the retry budget is exhausted") == true, "\(path): \(reason ?? "no reason")")
        }
    }

    @Test func `without a budget, each operation can be retried five times`() throws {
        server.route("GET", "/x", .status(500))
        let probes = (0..<20).map { _ in
            let probe = Probe(server.url("/x"))
            var policy = RetryPolicy(maximumRetryCount: 5)
            policy.initialDelay = 0.01
            probe.operation.retryPolicy = policy
            return probe
        }
        queue.addOperations(probes.map(\.operation), waitUntilFinished: false)
        for probe in probes {
            #expect(probe.outcome() != nil)
            #expect(probe.operation.retryCount == 5 && probe.operation.retryRefusal == .tooManyRetries)
        }
        #expect(server.requests.count == 120)
    }

    @Test func `during an outage only a few requests are sent, and then everything succeeds`() throws {
        let began = Locked<Date?>(nil)
        server.route("GET", "/x") { request in
            let first = began.withLock { first in
                let date = first ?? request.arrivedAt
                first = date
                return date
            }
            return request.arrivedAt.timeIntervalSince(first) < 2
                ? .status(503).header("Retry-After", "2") : .text("back")
        }
        queue.maxConcurrentOperationCount = 6
        let probes = (0..<500).map { _ in
            let probe = Probe(server.url("/x"))
            var policy = RetryPolicy()
            policy.budget = RetryBudget()
            probe.operation.retryPolicy = policy
            return probe
        }
        queue.addOperations(probes.map(\.operation), waitUntilFinished: false)
        for probe in probes { #expect(probe.outcome(within: 100) == Probe.succeeded) }
        let first = try #require(server.requests.map(\.arrivedAt).min())
        let early = server.requests.filter { $0.arrivedAt.timeIntervalSince(first) < 1.9 }
        #expect(early.count <= 6, "\(early.count) requests reached a server that had requested a delay")
    }
}
