import ConvoySupport
import Foundation

extension TestServer {
    /// The complete requests, in the order of completion. A request is recorded before its response is sent.
    public var requests: [RecordedRequest] { state.read { $0.requests } }

    /// The requests for a path and, unless nil, with a method.
    public func requests(_ method: String?, _ path: String) -> [RecordedRequest] {
        requests.filter { $0.path == path && (method == nil || $0.method == method) }
    }

    /// The requests for a path, with any method.
    public func requests(_ path: String) -> [RecordedRequest] { requests(nil, path) }

    /// The requests for which there was no route. They are in `requests` too.
    public var unexpectedRequests: [RecordedRequest] { state.read { $0.unexpected } }

    /// The requests whose connection ended before their body was complete. They are not in `requests`.
    public var incompleteRequests: [RecordedRequest] { state.read { $0.incomplete } }

    /// All counters at one moment.
    public var statistics: Statistics { state.read { $0.statistics } }

    /// Connections that are open.
    public var openConnectionCount: Int { statistics.openConnectionCount }

    /// Connections that were ever accepted.
    public var totalConnectionCount: Int { statistics.totalConnectionCount }

    /// Requests that are being answered. See `Statistics.activeRequestCount`.
    public var activeRequestCount: Int { statistics.activeRequestCount }

    /// The maximum number of requests that were being answered at the same time.
    public var peakActiveRequestCount: Int { statistics.peakActiveRequestCount }

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
    ///   - timeout: How many seconds to wait.
    ///   - condition: Called on this thread, at once and after every change.
    /// - Returns: The counters that met the condition.
    /// - Throws: `TestServerError.timedOut`, or `.stopped` if the server has been stopped, so that nothing can change
    ///   any more.
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

    /// Suspends until the counters meet a condition. Like the blocking form; if the task is cancelled, it throws
    /// `CancellationError` at once.
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
