import ConvoySerialization
@_spi(ConvoyInternals) import ConvoyTransport
import Foundation
import FoundationNetworking

/// Trying again.
extension URLConnectionOperation {
    /// Hears of each decision about a failed try.
    public typealias RetryHandler = @Sendable (_ operation: URLConnectionOperation, _ event: RetryEvent) -> Void

    /// Whether and when the request is tried again after a failure. nil, no retries, unless set.
    public final var retryPolicy: RetryPolicy? {
        get { settings.withLock { $0.retryPolicy } }
        set { settings.withLock { $0.retryPolicy = newValue } }
    }

    /// Told why a failed try is repeated or not, on `completionQueue`, or on a queue of the library's own where
    /// there is none.
    public final var retryHandler: RetryHandler? {
        get { settings.withLock { $0.handlers.retry } }
        set { exchange(\.handlers.retry, newValue) }
    }

    /// How often the request has been tried again.
    public final var retryCount: Int { delivery.withLock { $0.retry.count } }

    struct RetryRecord {
        var count = 0
        var began: UInt64?
        /// When the next try is due, on the clock.
        var due: UInt64 = 0
        /// Tells the wait that counts from those that a pause or a cancel has made void.
        var wait = 0
    }

    private var retryClock: any SchedulingClock { settings.withLock { $0.clock } }

    /// Notes that the first try begins.
    func noteFirstTry(under policy: RetryPolicy) {
        let now = retryClock.now
        delivery.withLock { $0.retry.began = now }
        if let host = schedulingHost { policy.budget?.deposit(forHost: host) }
    }

    /// Decides about a try that has ended, and notes when the next is due.
    func willRetry(after error: (any Error)?, head: ResponseHead?) -> Bool {
        guard let policy = retryPolicy, let began = delivery.withLock({ $0.retry.began }) else { return false }
        let request = self.request
        let now = retryClock.now
        let failure = RetryPolicy.Failure(
            host: schedulingHost, method: request.httpMethod ?? "GET", statusCode: head?.statusCode,
            error: error as? URLError, retryCount: retryCount, elapsed: Double(now - began) / 1e9,
            retryAfter: error == nil ? head?["Retry-After"].flatMap(RetryAfter.seconds) : nil,
            canSendBodyAgain: request.httpBodyStream == nil || request.httpBodyStream is any ReplayableBodyStream)
        guard error == nil || failure.error != nil, let event = policy.judge(failure, random: .random(in: 0...1))
        else { return false }
        tell(event)
        guard case .retry(let delay) = event.decision else { return false }
        let due = now + UInt64(delay * 1e9)
        delivery.withLock { delivery in
            delivery.retry.count += 1
            delivery.retry.due = due
        }
        if case .status(let status) = event.reason, status == 429 || status == 503 {
            closeHostGate(until: now + UInt64((failure.retryAfter ?? delay) * 1e9))
        }
        return true
    }

    private func tell(_ event: RetryEvent) {
        guard let handler = retryHandler else { return }
        (completionQueue ?? OperationQueues.processing).async { [self] in handler(self, event) }
    }

    /// Lets the retry be due when its time has come.
    func awaitRetry() {
        let (due, wait) = delivery.withLock { delivery in
            delivery.retry.wait += 1
            return (delivery.retry.due, delivery.retry.wait)
        }
        retryClock.schedule(at: due) { [weak self] in
            guard let self, self.delivery.withLock({ $0.retry.wait == wait }) else { return }
            self.happen(.retryDue)
        }
    }

    /// The request of a further try. A body from a stream is there once; it must be replayable. Calls the user's stream.
    func replayedRequest() throws(URLError) -> URLRequest {
        let request = self.request
        guard let stream = request.httpBodyStream else { return request }
        guard let replayable = stream as? any ReplayableBodyStream, let fresh = try? replayable.replay() else {
            throw URLError(
                .requestBodyStreamExhausted, url: request.url,
                "The body must be sent again, and its stream cannot be read twice.")
        }
        inputStream = fresh
        return self.request
    }
}

/// The header field of the same name: seconds, or a date (RFC 9110, section 10.2.3).
enum RetryAfter {
    static func seconds(_ text: String) -> TimeInterval? {
        let text = text.trimmingCharacters(in: .whitespaces)
        if let seconds = UInt32(text) { return TimeInterval(seconds) }
        guard let date = HTTPDate.parse(text) else { return nil }
        return max(0, TimeInterval(date) - Date().timeIntervalSince1970)
    }
}
