import ConvoySupport
import Foundation

extension TestServer {
    /// The requests received to their end, in the order in which they were complete. A request is here before its
    /// response is sent.
    public var requests: [RecordedRequest] { state.read { $0.requests } }

    /// The requests of a path and, unless nil, a method.
    public func requests(_ method: String?, _ path: String) -> [RecordedRequest] {
        requests.filter { $0.path == path && (method == nil || $0.method == method) }
    }

    /// The requests of a path, whatever their method.
    public func requests(_ path: String) -> [RecordedRequest] { requests(nil, path) }

    /// The requests for which there was no route, among `requests` as well.
    public var unexpectedRequests: [RecordedRequest] { state.read { $0.unexpected } }

    /// The requests whose connection ended before their body was complete; not among `requests`.
    public var incompleteRequests: [RecordedRequest] { state.read { $0.incomplete } }

    /// All counters at one moment.
    public var statistics: Statistics { state.read { $0.statistics } }

    /// Connections that are open.
    public var openConnectionCount: Int { statistics.openConnectionCount }

    /// Connections that were ever accepted.
    public var totalConnectionCount: Int { statistics.totalConnectionCount }

    /// Requests that are being answered. See `Statistics.activeRequestCount`.
    public var activeRequestCount: Int { statistics.activeRequestCount }

    /// The most requests that were being answered at one moment.
    public var peakActiveRequestCount: Int { statistics.peakActiveRequestCount }

    /// Forgets the recorded requests. Counters and expectations stay.
    public func forgetRequests() {
        state.update { log in
            log.requests = []
            log.unexpected = []
            log.incomplete = []
        }
    }

    /// Blocks this thread until the counters are as wanted.
    ///
    /// - Parameters:
    ///   - timeout: Seconds until it gives up.
    ///   - condition: Asked on this thread, at once and after every change.
    /// - Returns: The counters that were as wanted.
    /// - Throws: `TestServerError.timedOut`, or `.stopped` when the server has been stopped and nothing more can change.
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

    /// Suspends until the counters are as wanted. As `wait(timeout:until:)`; a cancelled task gives up at once with
    /// `CancellationError`.
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

    /// Blocks this thread until so many requests have been received, and returns all that there are.
    @available(*, noasync, message: "use the async form")
    @discardableResult
    public func waitForRequests(count: Int, timeout: TimeInterval = 10) throws(TestServerError) -> [RecordedRequest] {
        try wait(timeout: timeout) { $0.requestCount >= count }
        return requests
    }

    /// Suspends until so many requests have been received, and returns all that there are.
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
