import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Requests that are sent again: immediately if certainly nothing was sent, and otherwise only if they are idempotent
/// and a policy allows it.
@Suite struct UnsentRequestTests {
    let url: URL

    init() throws { url = try #require(URL(string: "http://example.com/x")) }

    /// A request over a scripted transport, its result, and the events of its handler.
    private final class Attempt: Sendable {
        let transport: ScriptedTransport
        let operation: HTTPRequestOperation
        let events = RetryEvents()
        private let done = Signal()

        init(
            _ url: URL, _ method: String, _ script: [ScriptedTransport.End], policy: RetryPolicy? = nil,
            body: InputStream? = nil
        ) {
            transport = ScriptedTransport(script)
            var request = URLRequest(url: url)
            request.httpMethod = method
            request.httpBodyStream = body
            operation = HTTPRequestOperation(request: request, transport: transport)
            operation.retryPolicy = policy
            operation.completionQueue = testQueue
            operation.retryHandler = { [events] in events.add($1) }
            operation.completionBlock = { [done] in done.fire() }
        }

        func run() -> Bool {
            operation.start()
            return waits()
        }

        func waits() -> Bool { done.wait() }

        var decisions: [RetryEvent.Decision] { events.decisions }
        var counts: [Int] { events.counts }
        var errorCode: URLError.Code? { (operation.error as? URLError)?.code }
    }

    /// Returns a policy without delays, with its own budget.
    private func policy(_ count: Int, reserve: Int = 100) -> RetryPolicy {
        var policy = RetryPolicy(maximumRetryCount: count)
        policy.initialDelay = 0
        policy.budget = RetryBudget(share: 0, reserve: reserve)
        return policy
    }

    @Test(arguments: ["GET", "POST", "PATCH"]) func `an unsent request is retried immediately, even without a policy`(
        method: String
    ) {
        let attempt = Attempt(url, method, [.unsent, .unsent, .answer])
        #expect(attempt.run())
        #expect(attempt.operation.error == nil && attempt.operation.statusCode == 200)
        #expect(attempt.operation.retryCount == 2 && attempt.transport.paths.count == 3)
        #expect(attempt.decisions == [.retry(after: 0), .retry(after: 0)] && attempt.counts == [0, 1])
    }

    @Test func `a response that may have been truncated is requested again over HTTP/1, once`() {
        let attempt = Attempt(url, "GET", [.unproven, .answer])
        #expect(attempt.run())
        #expect(attempt.operation.error == nil && attempt.operation.responseData?.isEmpty != false)
        #expect(attempt.transport.mayUseHTTP2 == [true, false] && attempt.counts == [0])
        #expect(attempt.decisions == [.retry(after: 0)])

        let other = Attempt(url, "GET", [.unproven, .unproven, .answer])
        #expect(other.run())
        #expect(other.errorCode == .networkConnectionLost && other.transport.paths.count == 2)
    }

    @Test func `an unsent request is retried at most three times in a row`() {
        let attempt = Attempt(url, "POST", Array(repeating: .unsent, count: 10))
        #expect(attempt.run())
        #expect(attempt.errorCode == .networkConnectionLost && attempt.transport.paths.count == 4)
        #expect(attempt.decisions == Array(repeating: .retry(after: 0), count: 3) + [.giveUp(.tooManyRetries)])
    }

    @Test func `resending counts neither as a retry nor against the budget`() {
        let script: [ScriptedTransport.End] = [.unsent, .unsent, .unsent, .lost, .unsent, .unsent, .answer]
        let attempt = Attempt(url, "GET", script, policy: policy(1, reserve: 1))
        #expect(attempt.run())
        #expect(attempt.operation.error == nil && attempt.operation.retryCount == 6)
        #expect(attempt.decisions == Array(repeating: .retry(after: 0), count: 6) && attempt.counts == Array(0..<6))
    }

    @Test func `after three attempts, the policy decides for every method`() {
        let attempt = Attempt(url, "POST", Array(repeating: .unsent, count: 10), policy: policy(2))
        #expect(attempt.run())
        #expect(attempt.errorCode == .networkConnectionLost && attempt.transport.paths.count == 6)
        #expect(attempt.decisions.last == .giveUp(.tooManyRetries))
    }

    @Test func `a non-idempotent request that was sent is never repeated under any policy`() {
        let attempt = Attempt(url, "POST", [.unsent, .lost], policy: policy(5))
        #expect(attempt.run())
        #expect(attempt.errorCode == .networkConnectionLost && attempt.transport.paths.count == 2)
        #expect(attempt.decisions == [.retry(after: 0), .giveUp(.notIdempotent)])
    }

    @Test func `a request that the user declares idempotent is repeated`() {
        var policy = policy(5)
        policy.idempotentMethods.insert("POST")
        let attempt = Attempt(url, "POST", [.lost, .lost, .answer], policy: policy)
        #expect(attempt.run())
        #expect(attempt.operation.error == nil && attempt.transport.paths.count == 3)
    }

    @Test func `without a policy, lost and refused requests are not repeated`() {
        for end in [ScriptedTransport.End.lost, .refused] {
            let attempt = Attempt(url, "GET", [end])
            #expect(attempt.run())
            #expect(attempt.operation.error != nil && attempt.transport.paths.count == 1 && attempt.decisions.isEmpty)
        }
    }

    @Test func `a one-shot body is not sent again, but a replayable one is`() throws {
        let once = Attempt(url, "POST", [.unsent, .answer], body: InputStream(data: Data("once".utf8)))
        #expect(once.run())
        #expect(once.errorCode == .networkConnectionLost && once.transport.bodies == [Data("once".utf8)])
        #expect(once.decisions == [.giveUp(.bodyCannotBeSentAgain)])

        let again = Attempt(url, "POST", [.unsent, .unsent, .answer], body: Again(data: Data("again".utf8)))
        #expect(again.run())
        #expect(again.operation.error == nil && again.transport.bodies == Array(repeating: Data("again".utf8), count: 3))
    }

    /// A replayable body.
    private final class Again: InputStream, ReplayableBodyStream {
        private let data: Data
        private var stream: InputStream

        override init(data: Data) {
            self.data = data
            stream = InputStream(data: data)
            super.init(data: Data())
        }

        func replay() throws -> InputStream { Again(data: data) }
        override func open() { stream.open() }
        override func close() { stream.close() }
        override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
            stream.read(buffer, maxLength: length)
        }
    }

    @Test func `an immediate retry keeps its slot and does not wait`() throws {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let transport = ScriptedTransport([.unsent, .unsent, .answer, .answer])
        let operations = ["/first", "/second"].map { path in
            HTTPRequestOperation(request: URLRequest(url: url.appendingPathComponent(path)), transport: transport)
        }
        queue.isSuspended = true
        queue.addOperations(operations, waitUntilFinished: false)
        queue.isSuspended = false
        #expect(drains(queue))
        #expect(transport.paths == ["/x/first", "/x/first", "/x/first", "/x/second"])
    }

    @Test func `pausing and cancelling during a retry are respected`() throws {
        for isPaused in [true, false] {
            let attempt = Attempt(url, "POST", [.unsent, .answer])
            let operation = attempt.operation
            let isOver = Signal()
            attempt.transport.beforeTheEnd {
                if isPaused { operation.pause() } else { operation.cancel() }
                // This block runs after all effects of the pause or the failure.
                attempt.transport.perform { isOver.fire() }
            }
            operation.start()
            #expect(isOver.wait())
            #expect(attempt.transport.paths.count == 1)
            #expect(operation.state == (isPaused ? .paused : .finished))
            operation.resume()
            #expect(attempt.waits())
            #expect(attempt.errorCode == (isPaused ? nil : .cancelled))
            #expect(attempt.transport.paths.count == (isPaused ? 2 : 1))
        }
    }

    @Test func `a redirected request is considered sent`() throws {
        let server = try TestServer()
        let nobody = try LoopbackPort.free()
        server.redirect("/moved", to: "http://127.0.0.1:\(nobody)/x", status: 307)
        let probe = Probe(server.url("/moved"), method: "POST")
        probe.operation.retryPolicy = policy(3)
        RequestOperationQueue().addOperation(probe.operation)
        #expect(probe.outcome()?.count == 2)
        #expect(probe.error?.code == .cannotConnectToHost)
        #expect(server.requests("POST", "/moved").count == 1)
    }
}
