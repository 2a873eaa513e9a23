import ConvoySupport
import Foundation

extension TestServer {
    /// The complete requests, in order of completion. A request is recorded before its response is sent.
    public var requests: [RecordedRequest] { state.read { $0.requests } }

    /// Returns the requests for a path with the given method, or with any method if it is nil.
    public func requests(_ method: String?, _ path: String) -> [RecordedRequest] {
        requests.filter { $0.path == path && (method == nil || $0.method == method) }
    }

    /// Returns the requests for a path, with any method.
    public func requests(_ path: String) -> [RecordedRequest] { requests(nil, path) }

    /// The requests without a matching route. They are also in `requests`.
    public var unexpectedRequests: [RecordedRequest] { state.read { $0.unexpected } }

    /// The requests whose connection ended before their body was complete. They are not in `requests`.
    public var incompleteRequests: [RecordedRequest] { state.read { $0.incomplete } }

    /// All counters, read at the same moment.
    public var statistics: Statistics { state.read { $0.statistics } }

    /// The number of open connections.
    package var openConnectionCount: Int { statistics.openConnectionCount }

    /// The number of connections accepted since the start.
    package var totalConnectionCount: Int { statistics.totalConnectionCount }

    /// The number of requests being answered. See `Statistics.activeRequestCount`.
    package var activeRequestCount: Int { statistics.activeRequestCount }

    /// The maximum number of requests that were being answered concurrently.
    package var peakActiveRequestCount: Int { statistics.peakActiveRequestCount }

    /// Removes the recorded requests. Counters and expectations are kept.
    public func forgetRequests() {
        state.update { log in
            log.requests = []
            log.unexpected = []
            log.incomplete = []
        }
    }

    /// Blocks this thread until the counters meet a condition.
    ///
    /// - Parameters:
    ///   - timeout: The maximum waiting time in seconds.
    ///   - condition: Called on this thread, immediately and after every change.
    /// - Returns: The counters that met the condition.
    /// - Throws: `TestServerError.timedOut`, or `.stopped` if the server has been stopped.
    @available(*, noasync, message: "use the async form")
    @discardableResult
    public func wait(
        timeout: TimeInterval = 10, until condition: (Statistics) -> Bool
    ) throws(TestServerError) -> Statistics {
        let deadline = DispatchTime.now() + .nanoseconds(Int(Nanoseconds.clamping(seconds: timeout)))
        while true {
            let generation = state.changes.generation
            let (statistics, isStopped) = state.read { ($0.statistics, $0.isStopped) }
            if condition(statistics) { return statistics }
            if isStopped { throw .stopped }
            let woken = DispatchSemaphore(value: 0)
            guard let waiter = state.changes.register(after: generation, { woken.signal() }) else { continue }
            if woken.wait(timeout: deadline) == .timedOut {
                state.changes.fire(waiter)
                throw .timedOut("\(statistics)")
            }
        }
    }

    /// Suspends until the counters meet a condition, like the blocking method. If the task is cancelled, it throws
    /// `CancellationError` immediately.
    @discardableResult
    public func wait(
        timeout: TimeInterval = 10, until condition: @Sendable (Statistics) -> Bool
    ) async throws -> Statistics {
        let deadline = Nanoseconds.deadline(timeout, after: MonotonicClock.now)
        while true {
            let generation = state.changes.generation
            let (statistics, isStopped) = state.read { ($0.statistics, $0.isStopped) }
            if condition(statistics) { return statistics }
            if isStopped { throw TestServerError.stopped }
            if MonotonicClock.now >= deadline { throw TestServerError.timedOut("\(statistics)") }
            try Task.checkCancellation()
            await change(after: generation, deadline: deadline)
        }
    }

    /// Blocks this thread until `count` requests have been received, and returns all requests.
    @available(*, noasync, message: "use the async form")
    @discardableResult
    public func waitForRequests(count: Int, timeout: TimeInterval = 10) throws(TestServerError) -> [RecordedRequest] {
        try wait(timeout: timeout) { $0.requestCount >= count }
        return requests
    }

    /// Suspends until `count` requests have been received, and returns all requests.
    @discardableResult
    public func waitForRequests(count: Int, timeout: TimeInterval = 10) async throws -> [RecordedRequest] {
        try await wait(timeout: timeout) { $0.requestCount >= count }
        return requests
    }

    private func change(after generation: UInt64, deadline: UInt64) async {
        let changes = state.changes
        let registration = CancellationAction()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                guard let waiter = changes.register(after: generation, { continuation.resume() }) else {
                    return continuation.resume()
                }
                engine.wake(waiter: waiter, at: deadline)
                registration.set { changes.fire(waiter) }
            }
        } onCancel: {
            registration.cancel()
        }
    }
}

extension TestServer {
    /// Counters of the server, read at the same moment.
    public struct Statistics: Hashable, Sendable {
        /// The number of requests received completely.
        public var requestCount = 0
        /// The number of complete requests without a matching route (404, 405).
        public var unexpectedRequestCount = 0
        /// The number of requests whose head has arrived and whose response has not been passed completely to the
        /// system. The number is decremented shortly after the client may have received the last byte, so wait for a value
        /// instead of just reading it.
        public var activeRequestCount = 0
        /// The maximum of `activeRequestCount`.
        public var peakActiveRequestCount = 0
        /// The number of responses that have ended, including those with faults such as a truncation.
        public var responseCount = 0
        /// The number of requests that clients abandoned: the connection ended before the body or the response was
        /// complete.
        public var abandonedRequestCount = 0
        /// The number of connections whose bytes were rejected because they were not a valid request.
        public var malformedRequestCount = 0
        /// The number of open connections.
        public var openConnectionCount = 0
        /// The number of connections accepted since the start.
        public var totalConnectionCount = 0
        /// The number of body bytes received so far, including those of unfinished requests.
        public var receivedBodyBytes = 0
        /// The number of completed TLS handshakes. Handshakes that the server aborted by stopping or dropping its
        /// connections are counted neither here nor in `failedHandshakeCount`.
        public var handshakeCount = 0
        /// The number of TLS handshakes that failed: by an alert of the client or the server, by the end of the
        /// connection, or after `Configuration.handshakeTimeout`.
        public var failedHandshakeCount = 0
        /// The number of completed TLS handshakes that resumed a session.
        public var resumedHandshakeCount = 0
        /// The number of decrypted bytes from clients. If it is 0, a client that rejected the certificate has sent no
        /// data.
        public var plaintextByteCount = 0
    }
}

extension TestServer {
    /// Expects exactly `count` requests, as checked by `verifyExpectations()`.
    ///
    /// - Parameters:
    ///   - method: The method, or nil for any.
    ///   - path: The path, or a prefix that ends in "*".
    ///   - count: The exact number of requests; 0 expects none.
    ///   - condition: An additional condition for a request to count. Called by `verifyExpectations()` on its thread.
    public func expect(
        _ method: String?, _ path: String, count: Int = 1,
        where condition: (@Sendable (RecordedRequest) -> Bool)? = nil
    ) {
        state.add(Expectation(method: method, path: path, count: count, condition: condition))
    }

    /// Expects exactly `count` requests for a path, with any method.
    public func expect(
        _ path: String, count: Int = 1, where condition: (@Sendable (RecordedRequest) -> Bool)? = nil
    ) {
        expect(nil, path, count: count, where: condition)
    }

    /// A message for each unmet expectation and each request without a route. Empty if all expectations are met.
    public var unmetExpectations: [String] {
        let (requests, unexpected) = state.read { ($0.requests, $0.unexpected) }
        var sentences: [String] = []
        for expectation in state.expected {
            let count = requests.filter { expectation.isMet(by: $0) }.count
            if count != expectation.count {
                sentences.append("expected \(expectation.count) of \(expectation.description), received \(count)")
            }
        }
        for request in unexpected {
            sentences.append("received \(request.method) \(request.target), which has no route")
        }
        return sentences
    }

    /// Throws `TestServerError.unmetExpectations` unless `unmetExpectations` is empty.
    public func verifyExpectations() throws(TestServerError) {
        let sentences = unmetExpectations
        guard sentences.isEmpty else { throw .unmetExpectations(sentences) }
    }
}

/// The number of requests that a test expects for a method and a path.
struct Expectation: Sendable {
    var method: String?
    var path: String
    var count: Int
    var condition: (@Sendable (RecordedRequest) -> Bool)?

    var description: String {
        "\(method ?? "any method") \(path)" + (condition == nil ? "" : " (with a condition)")
    }

    func isMet(by request: RecordedRequest) -> Bool {
        guard method == nil || method == request.method else { return false }
        if path.hasSuffix("*") {
            guard request.path.utf8.starts(with: path.dropLast().utf8) else { return false }
        } else {
            guard request.path == path else { return false }
        }
        return condition?(request) ?? true
    }
}

/// An action to run on cancellation, which may be set before or after the cancellation.
final class CancellationAction: Sendable {
    private struct State {
        var action: (@Sendable () -> Void)?
        var isCancelled = false
    }

    private let state = Locked(State())

    /// Sets the action, or runs it immediately if already cancelled.
    func set(_ action: @escaping @Sendable () -> Void) {
        let isCancelled = state.withLock { state in
            if !state.isCancelled { state.action = action }
            return state.isCancelled
        }
        if isCancelled { action() }
    }

    /// Runs the action, now or as soon as it is set.
    func cancel() {
        let action = state.withLock { state in
            state.isCancelled = true
            defer { state.action = nil }
            return state.action
        }
        action?()
    }
}
