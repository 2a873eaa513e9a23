import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Trying again.
extension URLConnectionOperation {
    /// Hears of each decision about a failed try.
    public typealias RetryHandler = @Sendable (_ operation: URLConnectionOperation, _ event: RetryEvent) -> Void

    /// Whether and when the request is tried again after a failure. nil, unless set: then only a request of which
    /// provably nothing was sent is tried again.
    public final var retryPolicy: RetryPolicy? {
        get { settings.withLock { $0.retryPolicy } }
        set { settings.withLock { $0.retryPolicy = newValue } }
    }

    /// Told why a failed try is repeated or not, and that the operation waits at the closed gate of its host, on
    /// `completionQueue`, or on a queue of the library's own where there is none.
    public final var retryHandler: RetryHandler? {
        get { settings.withLock { $0.handlers.retry } }
        set { exchange(\.handlers.retry, newValue) }
    }

    /// How often the request has been tried again.
    public final var retryCount: Int { delivery.withLock { $0.retry.count } }

    /// How often in a row a request of which nothing was sent is tried again at once.
    private static let mostImmediateRetries = 3

    struct RetryRecord {
        /// All retries.
        var count = 0
        /// Those that the policy has decided on.
        var counted = 0
        /// Those at once, since something else happened.
        var immediateInARow = 0
        var began: UInt64?
        /// When the next try is due, on the clock.
        var due: UInt64 = 0
        /// Keeps the operation alive while it waits: by the try after which it does.
        var waiting: [Lifecycle.TryNumber: URLConnectionOperation] = [:]
    }

    /// When a request is tried again.
    enum NextTry {
        /// In the same slot of the queue.
        case atOnce
        /// When the time for it has come.
        case later

        func event(after number: Lifecycle.TryNumber) -> Lifecycle.Event {
            switch self {
            case .atOnce: .workMustRepeat(number)
            case .later: .workWillRetry(number)
            }
        }
    }

    private var retryClock: any SchedulingClock { settings.withLock { $0.clock } }

    /// Notes that the first try begins.
    func noteFirstTry(under policy: RetryPolicy) {
        let now = retryClock.now
        delivery.withLock { $0.retry.began = now }
        if let host = schedulingHost { policy.budget?.deposit(forHost: host) }
    }

    /// Decides about a try that has ended: when it is tried again, nil where it is not.
    func retry(after error: (any Error)?, head: ResponseHead?) -> NextTry? {
        let request = self.request
        let failure = error as? URLError
        let nothingWasSent = failure?.provesThatNothingWasSent(of: request) ?? false
        let canSendBodyAgain = request.httpBodyStream == nil || request.httpBodyStream is any ReplayableBodyStream
        if let failure, nothingWasSent, failure.isMarkedAsUnsent {
            if canSendBodyAgain, let count = countImmediateRetry() {
                tell(RetryEvent(retryCount: count, reason: .error(failure), decision: .retry(after: 0)))
                return .atOnce
            }
            if retryPolicy == nil {
                let refusal = canSendBodyAgain ? RetryEvent.Refusal.tooManyRetries : .bodyCannotBeSentAgain
                tell(RetryEvent(retryCount: retryCount, reason: .error(failure), decision: .giveUp(refusal)))
            }
        } else {
            delivery.withLock { $0.retry.immediateInARow = 0 }
        }
        let record = delivery.withLock { $0.retry }
        guard let policy = retryPolicy, let began = record.began, error == nil || failure != nil else { return nil }
        let now = retryClock.now
        let facts = RetryPolicy.Failure(
            host: schedulingHost, method: request.httpMethod ?? "GET", statusCode: head?.statusCode, error: failure,
            retryCount: record.count, countedRetries: record.counted, elapsed: Nanoseconds.seconds(from: began, to: now),
            retryAfter: error == nil ? head?["Retry-After"].flatMap(RetryAfter.seconds) : nil,
            canSendBodyAgain: canSendBodyAgain, nothingWasSent: nothingWasSent)
        guard let event = policy.judge(facts, random: .random(in: 0...1)) else { return nil }
        tell(event)
        guard case .retry(let delay) = event.decision else { return nil }
        let due = Nanoseconds.deadline(delay, after: now)
        delivery.withLock { delivery in
            delivery.retry.count += 1
            delivery.retry.counted += 1
            delivery.retry.due = due
        }
        if case .status(let status) = event.reason, status == 429 || status == 503 {
            let duration = min(facts.retryAfter ?? delay, max(0, policy.maximumGateDuration))
            closeHostGate(until: Nanoseconds.deadline(duration, after: now))
        }
        return .later
    }

    /// Counts one more retry at once, and returns how many retries there had been; nil if there were enough in a row.
    private func countImmediateRetry() -> Int? {
        delivery.withLock { delivery in
            guard delivery.retry.immediateInARow < Self.mostImmediateRetries else { return nil }
            delivery.retry.immediateInARow += 1
            delivery.retry.count += 1
            return delivery.retry.count - 1
        }
    }

    /// Tells the handler that the gate of the host is closed. What `willWaitAtGate(until:)` does.
    func tellOfClosedGate(until deadline: UInt64) {
        guard retryHandler != nil, let host = schedulingHost else { return }
        let date = retryClock.date(of: deadline)
        tell(RetryEvent(retryCount: retryCount, reason: .closedGate(host: host), decision: .waitAtGate(until: date)))
    }

    private func tell(_ event: RetryEvent) {
        guard let handler = retryHandler else { return }
        (completionQueue ?? OperationQueues.processing).async { [self] in handler(self, event) }
    }

    /// Lets the retry after a try be due when its time has come.
    func awaitRetry(after number: Lifecycle.TryNumber) {
        let due = delivery.withLock { delivery in
            delivery.retry.waiting[number] = self
            return delivery.retry.due
        }
        let life = lifecycle.current.life
        guard life.isBackingOff, life.tryNumber == number else { return endRetryWait(after: number) }
        retryClock.schedule(at: due) { [weak self] in self?.handle(.retryDue(number)) }
    }

    /// The wait is over, or nobody waits any more.
    func endRetryWait(after number: Lifecycle.TryNumber) {
        let kept = delivery.withLock { $0.retry.waiting.removeValue(forKey: number) }
        withExtendedLifetime(kept) {}
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

extension URLError {
    /// Whether the transport has proved that not a byte of the request was sent.
    fileprivate var isMarkedAsUnsent: Bool { userInfo[URLError.nothingWasSentKey] as? Bool == true }

    /// Whether nobody can have seen anything of a request that has failed so: it was not sent, or no connection was made.
    fileprivate func provesThatNothingWasSent(of request: URLRequest) -> Bool {
        // Where the failure is another URL's, a redirect came before: the request was sent and answered.
        if let failed = userInfo[NSURLErrorFailingURLErrorKey] as? URL, failed != request.url { return false }
        return isMarkedAsUnsent || [.cannotConnectToHost, .cannotFindHost, .dnsLookupFailed].contains(code)
    }
}

/// The header field of the same name: seconds, or a date (RFC 9110, section 10.2.3).
enum RetryAfter {
    /// Seconds from now; nil for what is neither. A number that is too large to be counted is the largest.
    static func seconds(_ text: String) -> TimeInterval? {
        let text = text.trimmingCharacters(in: .whitespaces)
        if !text.isEmpty, text.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) {
            return TimeInterval(Int64(text) ?? .max)
        }
        guard let date = HTTPDate.parse(text) else { return nil }
        return max(0, TimeInterval(date) - Date().timeIntervalSince1970)
    }
}
