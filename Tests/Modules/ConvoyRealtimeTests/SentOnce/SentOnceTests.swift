import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoyTransport

/// Requests that are not idempotent, which must be sent once despite anything that could repeat them. The server counts
/// the requests.
@Suite(.timeLimit(.minutes(2))) struct SentOnceTests {
    static let methods = ["PUT", "DELETE", "POST", "PATCH", "LOCK"]

    private let server: TestServer
    private let gate = TestServer.Gate()

    init() throws { server = try TestServer() }

    /// The amount of a request that was sent before it is paused or loses its connection.
    enum Progress: CaseIterable {
        case nothing, part, all
    }

    static func isIdempotent(_ method: String) -> Bool { ["PUT", "DELETE"].contains(method) }

    /// The pieces of a body, the second of which waits.
    private struct Pieces: AsyncSequence, Sendable {
        let gate: AsyncGate

        struct AsyncIterator: AsyncIteratorProtocol {
            let gate: AsyncGate
            var count = 0

            mutating func next() async -> Data? {
                count += 1
                if count == 2 { await gate.wait() }
                return count < 3 ? Data("piece".utf8) : nil
            }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator(gate: gate) }
    }

    private final class AsyncGate: Sendable {
        private struct State {
            var isOpen = false
            var waiting: [CheckedContinuation<Void, Never>] = []
        }

        private let state = Locked(State())

        func wait() async {
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    if !state.isOpen { state.waiting.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
        }

        func open() {
            let waiting = state.withLock { state in
                defer { state = State(isOpen: true) }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }
    }

    private func operation(_ method: String, _ path: String = "/", retryCount: Int = 0) -> HTTPRequestOperation {
        var request = URLRequest(url: server.url(path))
        request.httpMethod = method
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = DispatchQueue(label: "handlers")
        operation.responseSerializer = HTTPResponseSerializer()
        if retryCount > 0 {
            var policy = RetryPolicy(maximumRetryCount: retryCount)
            policy.initialDelay = 0
            policy.budget = nil
            operation.retryPolicy = policy
        }
        return operation
    }

    /// Waits until the network thread has processed everything submitted so far.
    private func settle() {
        for _ in 0..<3 {
            let turn = DispatchSemaphore(value: 0)
            let isPerformed: Bool = NetworkThread.shared.perform { turn.signal() }
            if isPerformed { turn.wait() }
        }
    }

    /// Waits until the operation has finished and its handlers have run.
    private func wait(for operation: HTTPRequestOperation) throws {
        let end = DispatchSemaphore(value: 0)
        operation.whenDelivered { end.signal() }
        try end.waitOrThrow(timeout: 60, "the end of \(operation)")
    }

    // MARK: Pauses

    @Test(arguments: methods, Progress.allCases)
    func `a paused request is sent again only if it is idempotent or was not sent`(
        method: String, progress: Progress
    ) throws {
        let gate = gate
        server.route(method, "/", .text("answer").held(by: gate))
        let operation = operation(method)
        let body = AsyncGate()
        switch progress {
        case .nothing:
            let queue = try FullQueue()
            operation.connectionConfiguration.addressOverrides = ["127.0.0.1": "127.0.0.1:\(queue.port)"]
            operation.start()
            settle()
            operation.pause()
            settle()
            operation.connectionConfiguration.addressOverrides = [:]
        case .part:
            var request = operation.request
            request.httpBodyStream = SequenceBody.stream(canRepeat: true) { SequencePump { Pieces(gate: body) } }
            operation.replaceRequest(with: request)
            operation.start()
            try server.wait { $0.receivedBodyBytes > 0 }
            operation.pause()
            settle()
            body.open()
        case .all:
            operation.start()
            _ = try server.waitForRequests(count: 1)
            operation.pause()
            settle()
        }
        #expect(operation.isPaused)
        gate.open()
        settle()
        #expect(operation.isPaused && operation.response == nil)
        operation.resume()
        try wait(for: operation)
        #expect(operation.error == nil && operation.responseString == "answer")
        let isRepeated = Self.isIdempotent(method) && progress != .nothing
        #expect(server.requests.count + server.incompleteRequests.count == (isRepeated ? 2 : 1))
        if progress == .part { #expect(server.requests.last?.text == "piecepiece") }
    }

    @Test(arguments: methods) func `a request is sent once despite repeated pauses`(method: String) throws {
        server.route(method, "/", .text("answer").held(by: gate))
        let operation = operation(method)
        operation.start()
        _ = try server.waitForRequests(count: 1)
        for round in 0..<50 {
            operation.pause()
            if round % 3 == 0 { settle() }
            operation.resume()
            if round % 5 == 0 { settle() }
        }
        gate.open()
        try wait(for: operation)
        #expect(operation.error == nil && operation.responseString == "answer")
        if !Self.isIdempotent(method) { #expect(server.statistics.requestCount == 1) }
    }

    @Test func `requests paused by many threads are each sent once`() throws {
        server.route("POST", "/", .pattern(count: 100_000).held(by: gate))
        let operations = (0..<20).map { _ in operation("POST") }
        for operation in operations { operation.start() }
        DispatchQueue.concurrentPerform(iterations: 80) { index in
            let operation = operations[index % operations.count]
            for _ in 0..<50 {
                operation.pause()
                operation.resume()
            }
        }
        gate.open()
        for operation in operations {
            try wait(for: operation)
            #expect(operation.error == nil && operation.responseData == PatternBytes.data(count: 100_000))
        }
        #expect(server.statistics.requestCount == operations.count && server.incompleteRequests.isEmpty)
    }

    @Test func `a pause during the response keeps the connection`() throws {
        server.route("POST", "/", .pattern(count: 1_000_000).heldBody(by: gate, afterBytes: 300_000))
        let operation = operation("POST")
        let isFirst = Locked(true)
        operation.downloadProgressHandler = { [weak operation] _, _, _ in
            let pauses = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
            if pauses { operation?.pause() }
        }
        operation.start()
        try eventually { operation.isPaused }
        settle()
        let received = operation.transferProgress.bytesReceived
        gate.open()
        settle()
        #expect(operation.transferProgress.bytesReceived == received && received < 1_000_000)
        operation.resume()
        try wait(for: operation)
        #expect(operation.responseData == PatternBytes.data(count: 1_000_000))
        #expect(server.statistics.requestCount == 1 && server.totalConnectionCount == 1)
    }

    @Test func `a held transfer occupies no slot and has no time limit`() throws {
        server.route("POST", "/", .text("answer").held(by: gate))
        server.route("/other", .text("other"))
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let operation = operation("POST")
        operation.idleTimeout = 0.5
        operation.connectionConfiguration.timeoutIntervalForHead = 0.5
        operation.connectionConfiguration.stallLimit = StallLimit(bytesPerSecond: 1_000, duration: 0.5)
        queue.addOperation(operation)
        _ = try server.waitForRequests(count: 1)
        operation.pause()
        let other = self.operation("GET", "/other")
        queue.addOperation(other)
        try wait(for: other)
        // This is longer than the limits, even on a slow machine.
        usleep(1_200_000)
        #expect(operation.isPaused)
        gate.open()
        operation.resume()
        try wait(for: operation)
        #expect(operation.error == nil && operation.responseString == "answer")
        #expect(server.requests("/").count == 1)
    }

    // MARK: Completion

    @Test(arguments: [false, true])
    func `a paused operation that is cancelled or resumed finishes without being retained`(cancels: Bool) throws {
        server.route("POST", "/", .text("answer").held(by: gate))
        let end = DispatchSemaphore(value: 0)
        let hasFailed = Locked<Bool?>(nil)
        var operation: HTTPRequestOperation? = operation("POST")
        operation?.setCompletionHandler(
            success: { _, _ in
                hasFailed.withLock { $0 = false }
                end.signal()
            },
            failure: { _, _ in
                hasFailed.withLock { $0 = true }
                end.signal()
            })
        operation?.start()
        _ = try server.waitForRequests(count: 1)
        operation?.pause()
        settle()
        if cancels { operation?.cancel() } else { operation?.resume() }
        operation = nil
        gate.open()
        try end.waitOrThrow(timeout: 60, "the end")
        #expect(hasFailed.withLock { $0 } == cancels)
    }

    @Test(arguments: [Lifecycle.Event.cancel, .expire])
    func `ending a paused operation closes its connection`(_ end: Lifecycle.Event) throws {
        server.route("POST", "/", .text("answer").held(by: gate))
        let operation = operation("POST")
        operation.start()
        _ = try server.waitForRequests(count: 1)
        operation.pause()
        settle()
        operation.handle(end)
        try wait(for: operation)
        #expect((operation.error as? URLError)?.code == (end == .cancel ? .cancelled : .timedOut))
        try server.wait { $0.openConnectionCount == 0 }
    }

    @Test(arguments: methods, Progress.allCases)
    func `only idempotent requests are retried after a lost connection`(method: String, progress: Progress) throws {
        server.route(method, "/", inTurn: [.text("").resetBeforeHead(), .text("answer")])
        // The handler of the first retry may be called after later retries.
        let operation = operation(method, retryCount: progress == .nothing ? 10_000 : 1)
        let body = AsyncGate()
        switch progress {
        case .nothing:
            // No server listens at this port.
            let port = try LoopbackPort.free()
            operation.connectionConfiguration.addressOverrides = ["127.0.0.1": "127.0.0.1:\(port)"]
            operation.retryHandler = { operation, _ in
                (operation as? HTTPRequestOperation)?.connectionConfiguration.addressOverrides = [:]
            }
            server.route(method, "/", .text("answer"))
            operation.start()
        case .part:
            var request = operation.request
            request.httpBodyStream = SequenceBody.stream(canRepeat: true) { SequencePump { Pieces(gate: body) } }
            operation.replaceRequest(with: request)
            server.route(method, "/", .text("answer"))
            operation.start()
            try server.wait { $0.receivedBodyBytes > 0 }
            server.dropConnections()
            try server.wait { $0.abandonedRequestCount > 0 }
            body.open()
        case .all: operation.start()
        }
        try wait(for: operation)
        let isRetried = Self.isIdempotent(method) || progress == .nothing
        #expect((operation.error == nil) == isRetried)
        let count = server.requests.count + server.incompleteRequests.count
        #expect(count == (isRetried && progress != .nothing ? 2 : 1))
    }

    @Test(arguments: [false, true])
    func `a connection lost during a pause fails the operation without a retry`(retrying: Bool) throws {
        server.route("POST", "/", .text("answer").held(by: gate))
        let operation = operation("POST", retryCount: retrying ? 1 : 0)
        operation.start()
        _ = try server.waitForRequests(count: 1)
        operation.pause()
        settle()
        server.dropConnections()
        try server.wait { $0.abandonedRequestCount > 0 }
        #expect(operation.isPaused && !operation.isFinished)
        operation.resume()
        try wait(for: operation)
        let error = try #require(operation.error as? URLError)
        #expect(error.code == .networkConnectionLost && error.localizedDescription.contains("may have processed"))
        #expect(error.userInfo[NSUnderlyingErrorKey] != nil)
        #expect(server.requests.count == 1)
        if retrying { #expect(operation.retryRefusal == .notIdempotent) }
    }

    // MARK: Responses that lead to another request

    @Test(arguments: [303, 307], [false, true])
    func `a redirect sends the request to each URL once, even across a pause`(status: Int, pausesInHandler: Bool) throws {
        server.route("POST", "/", .redirect(to: "/next", status: status).held(by: gate))
        server.route(status == 303 ? "GET" : "POST", "/next", .text("next"))
        let operation = operation("POST")
        if pausesInHandler {
            gate.open()
            operation.redirectHandler = { operation, request, _ in
                operation.pause()
                return request
            }
            operation.start()
            try eventually { operation.isPaused }
            settle()
        } else {
            operation.start()
            _ = try server.waitForRequests(count: 1)
            operation.pause()
            settle()
            gate.open()
        }
        settle()
        #expect(server.requests.map(\.path) == ["/"], "nothing is sent during a pause")
        operation.resume()
        try wait(for: operation)
        #expect(operation.error == nil && operation.responseString == "next")
        #expect(server.requests.map(\.path) == ["/", "/next"])
    }

    @Test(arguments: ["PUT", "POST"], [429, 503])
    func `a retryable status repeats only idempotent requests`(method: String, status: Int) throws {
        server.route(method, "/", inTurn: [.status(status), .text("answer")])
        let operation = operation(method, retryCount: 1)
        operation.start()
        try wait(for: operation)
        #expect(operation.statusCode == (method == "PUT" ? 200 : status))
        #expect(server.requests.count == (method == "PUT" ? 2 : 1))
    }

    @Test(arguments: methods, [false, true])
    func `a challenge is answered with a single additional request`(method: String, isToken: Bool) throws {
        let scheme = isToken ? "Bearer" : "Basic"
        server.route(method, "/") { request in
            request.headers["Authorization"]?.hasPrefix("\(scheme) ") == true
                && request.headers["Authorization"] != "Bearer old"
                ? .text("answer") : .status(401).header("WWW-Authenticate", "\(scheme) realm=\"here\"")
        }
        let operation = operation(method, retryCount: 1)
        operation.credential = isToken ? nil : URLCredential(user: "user", password: "password", persistence: .none)
        if isToken {
            operation.authenticationChallengeHandler = { operation, _, answer in
                operation.pause()
                answer(.useToken("new"))
                operation.resume()
            }
        }
        operation.start()
        try wait(for: operation)
        #expect(operation.error == nil && operation.responseString == "answer")
        #expect(server.requests.count == 2)
    }
}
