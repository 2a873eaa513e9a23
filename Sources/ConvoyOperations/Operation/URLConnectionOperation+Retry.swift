import ConvoyReachability
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The retries of an operation.
extension URLConnectionOperation {
    /// A handler called with each retry decision about a failed attempt.
    public typealias RetryHandler = @Sendable (_ operation: URLConnectionOperation, _ event: RetryEvent) -> Void

    /// The handler called once for each failed attempt, with the decision to retry or to give up, and the reason. It is
    /// not called for an operation that waits at the closed gate of its host, which has not failed; an ``EventMonitor``
    /// and `RequestOperationQueue.closedGates` report that wait. It runs on `completionQueue`, or on an internal queue
    /// if that is nil.
    public final var retryHandler: RetryHandler? {
        get { core.withLock { $0.rareHandlers?.retry } }
        set { setHandler(\.retry, newValue) }
    }

    /// The handler called when the operation waits at the closed gate of its host, on the queue of the `retryHandler`.
    package final var closedGateHandler: (@Sendable () -> Void)? {
        get { core.withLock { $0.rareHandlers?.closedGate } }
        set { setHandler(\.closedGate, newValue) }
    }

    /// The number of times the request has been retried.
    public final var retryCount: Int { core.withLock { $0.retry?.count ?? 0 } }

    /// The reason why the `retryPolicy` did not retry the failed request; nil if it has not failed, or the policy does
    /// not cover the failure.
    public final var retryRefusal: RetryEvent.Refusal? { core.withLock { $0.retry?.refusal } }

    /// The maximum number of consecutive immediate retries of an unsent request.
    private static let mostImmediateRetries = 3

    /// The time at which the next attempt begins.
    enum NextAttempt {
        /// Immediately, keeping the slot in the queue.
        case atOnce
        /// After a delay, without a slot.
        case later(RetryDelay)
        /// When a pending answer arrives. The closure, called after the slot was released, requests that answer.
        case whenAnswered(for: WaitReason, @Sendable () -> Void)
    }

    /// Begins the next attempt after one that has ended.
    func proceed(to next: NextAttempt, after attempt: Attempt) {
        switch next {
        case .atOnce: repeatAtOnce(after: attempt)
        case .later(let wait):
            core.withLock { _ in attempt.wait = wait }
            handle(.workWillRetry(attempt.number))
        case .whenAnswered(let reason, let ask):
            metricsRecord?.expectDelay(for: reason)
            eventLog?.note(.delay(for: reason))
            core.withLock { _ in attempt.wait = RetryDelay(until: .max) }
            handle(.workWillRetry(attempt.number))
            // If the operation was paused while the attempt was ending, the next attempt requests the answer.
            let life = lifecycle.value
            if life.isBackingOff, life.attemptNumber == attempt.number { ask() }
        }
    }

    /// Begins the next attempt immediately, with the slot of the previous attempt. If redirects have moved it to
    /// another host, the operation releases its slot and waits for a slot of the new host.
    func repeatAtOnce(after attempt: Attempt) {
        guard !redirects.isEmpty, let scheduler = scheduler.object, let host = hostKey,
            scheduler.host(of: self) !== host
        else { return handle(.workStopped(attempt.number)) }
        proceed(to: .later(RetryDelay(until: retryClock.now)), after: attempt)
    }

    /// Returns the last host that the attempt contacted, after redirects; nil if that host has neither a limit nor a
    /// gate.
    private func contactedHost(_ head: ResponseHead?, _ failure: URLError?) -> HostKey? {
        guard let own = hostKey else { return nil }
        let events = redirects
        guard !events.isEmpty else { return own }
        let failed = failure.map { $0.userInfo[NSURLErrorFailingURLErrorKey] as? URL ?? events.last?.to }
        return hostKey(of: failed ?? head?.url ?? events.last?.to)
    }

    package final var retryClock: any SchedulingClock { core.withLock { $0.common.values.holder.clock } }

    /// Counts retries made in an earlier process against the policy's maximum. Call this before the operation is
    /// started.
    package final func countEarlierRetries(_ count: Int) { core.withLock { $0.retryRecord.counted = count } }

    /// Records the start of the first attempt.
    func noteFirstAttempt(_ policy: RetryPolicy) {
        let now = retryClock.now
        core.withLock { $0.retryRecord.began = now }
        if let host = schedulingHost { policy.budget?.deposit(forHost: host) }
    }

    /// Whether the operation has failed and the server has certainly received nothing of its request.
    package final var wasCertainlyNotSent: Bool {
        redirects.isEmpty && (error as? URLError)?.provesThatNothingWasSent(of: request) ?? false
    }

    /// Returns the next attempt after an attempt that has failed or whose response may be retried; nil if the operation
    /// is not retried.
    func retry(after error: (any Error)?, head: ResponseHead?, _ attempt: Attempt) -> NextAttempt? {
        if error == nil, retryPolicy == nil { return nil }
        let request = self.request
        let failure = error as? URLError
        // After a redirect, the request was sent and answered, even if the redirect leads back to its URL.
        let nothingWasSent = redirects.isEmpty && failure?.provesThatNothingWasSent(of: request) ?? false
        let canSendBodyAgain = canReplay(request.httpBodyStream)
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
            core.withLock { $0.retry?.immediateInARow = 0 }
        }
        let (record, policy) = core.withLock { core in
            // The body of a response that asks for a retry does not count as progress.
            if error != nil {
                core.retry?.note(attempt.progress)
                // The server has confirmed the sent bytes of a resumable upload. A body that is sent again from the
                // start is not progress.
                if core.worker?.isResumable == true { core.retry?.noteSent(attempt.progress) }
            }
            return (core.retry?.copy, core.common.values.retryPolicy)
        }
        guard let policy, let record, let began = record.began, error == nil || failure != nil else { return nil }
        let now = retryClock.now
        let host = contactedHost(head, failure)
        let facts = RetryPolicy.FailedAttempt(
            host: host?.name, method: request.httpMethod ?? "GET", statusCode: head?.statusCode, error: failure,
            retryCount: record.count, countedRetries: record.counted, elapsed: Nanoseconds.seconds(from: began, to: now),
            retryAfter: error == nil ? head?["Retry-After"].flatMap(RetryAfter.seconds) : nil, timeLeft: timeLeft(at: now),
            canSendBodyAgain: canSendBodyAgain, nothingWasSent: nothingWasSent, isResumable: worker?.isResumable ?? false)
        guard let event = policy.evaluate(facts, random: .random(in: 0...1)) else { return nil }
        tell(event)
        if case .giveUp(let refusal) = event.decision { core.withLock { $0.retryRecord.refusal = refusal } }
        guard case .retry(let delay) = event.decision else { return nil }
        let due = Nanoseconds.deadline(delay, after: now)
        let awaited = policy.retriesWhenNetworkReturns && error != nil ? networkToAwait : nil
        let continuation = core.withLock { core in
            core.retryRecord.count += 1
            core.retryRecord.counted += 1
            core.retryRecord.followsAnswer = error == nil
            // Start again from the operation's own request, because redirects may lead elsewhere.
            return core.authentication?.continuation.take()
        }
        // The continuation's request may hold the last reference to a user's stream, so it is released outside the
        // lock.
        withExtendedLifetime(continuation) {}
        supervisor?.operation(self, willRetry: event, countedRetries: record.counted + 1)
        // Without a route to the host, it was not the host that refused the connection.
        if awaited?.isGone != true, let host { closeGate(of: host, after: facts, event, delay: delay, policy, now) }
        return .later(RetryDelay(until: due, or: awaited))
    }

    /// Returns the next attempt if the response may have been truncated. The response is requested again once, over
    /// HTTP/1.1, and only its remaining bytes if possible.
    func retryForProof(_ error: any Error) -> NextAttempt? {
        guard let failure = error as? URLError, failure.userInfo[URLError.isUnprovenKey] != nil,
            canReplay(request.httpBodyStream)
        else { return nil }
        let count = core.withLock { core -> Int? in
            guard !core.retryRecord.avoidsHTTP2 else { return nil }
            core.retryRecord.avoidsHTTP2 = true
            core.retryRecord.count += 1
            return core.retryRecord.count - 1
        }
        guard let count else { return nil }
        tell(RetryEvent(retryCount: count, reason: .error(failure), decision: .retry(after: 0)))
        return .atOnce
    }

    /// Closes the gate of the host after a failure that would also affect other requests.
    private func closeGate(
        of host: HostKey, after failure: RetryPolicy.FailedAttempt, _ event: RetryEvent, delay: TimeInterval,
        _ policy: RetryPolicy, _ now: UInt64
    ) {
        guard policy.maximumGateDuration > 0 else { return }
        let duration = min(failure.retryAfter ?? delay, policy.maximumGateDuration)
        let deadline = Nanoseconds.deadline(duration, after: now)
        // `host` itself refused the connection if nothing was sent, or if it is the target of a redirect.
        let isRefusal = failure.nothingWasSent || !redirects.isEmpty
        switch event.reason {
        case .status(429), .status(503): closeGate(of: host, until: deadline)
        // A probe that failed for another reason has not shown that the host has recovered.
        case .error(let error) where error.code == .cannotConnectToHost && isRefusal || reportsAnswer:
            let patience = Nanoseconds.clamping(seconds: policy.longestWait)
            closeGateAfterRefusal(of: host, until: deadline, patience: patience)
        default: break
        }
    }

    /// Returns the error with marked secrets redacted and with the reason why the request was not retried, if any.
    func explained(_ error: any Error) -> any Error {
        let error = hidingSecrets(in: decodable(error))
        guard let refusal = retryRefusal else { return error }
        let sentence = "The request was not retried: \(refusal.text)."
        func reason(_ userInfo: [String: Any]) -> String {
            (userInfo[NSLocalizedFailureReasonErrorKey] as? String).map { "\($0) \(sentence)" } ?? sentence
        }
        if let error = error as? URLError {
            var userInfo = error.userInfo
            userInfo[URLError.retryRefusalKey] = refusal
            userInfo[NSLocalizedFailureReasonErrorKey] = reason(userInfo)
            return URLError(error.code, describedBy: userInfo)
        }
        // Errors of other types pass through unchanged.
        guard type(of: error) is NSError.Type else { return error }
        let failure = error as NSError
        return failure.adding(refusal, for: URLError.retryRefusalKey)
            .adding(reason(failure.userInfo), for: NSLocalizedFailureReasonErrorKey)
    }

    /// Returns the error, which decodes its body with the manager's decoder if it is an `HTTPError`.
    func decodable(_ error: any Error) -> any Error {
        guard let refusal = error as? HTTPError, let decoder = core.withLock({ $0.common.values.decoder }) else {
            return error
        }
        return refusal.decoding(by: decoder)
    }

    /// Returns the error with marked secrets redacted.
    private func hidingSecrets(in error: any Error) -> any Error {
        let secrets = connectionConfiguration.secrets
        guard secrets != .standard else { return error }
        if let error = error as? URLError { return error.hiding(secrets) }
        guard let error = error as? HTTPError else { return error }
        return error.adding(secrets, for: ErrorDescription.secretsKey)
    }

    /// Counts another immediate retry. Returns the number of earlier retries; nil if the maximum number in a row is
    /// reached.
    private func countImmediateRetry() -> Int? {
        core.withLock { core in
            let record = core.retryRecord
            guard record.immediateInARow < Self.mostImmediateRetries else { return nil }
            record.immediateInARow += 1
            record.count += 1
            return record.count - 1
        }
    }

    /// Reports to monitors that the gate of the host is closed. The `retryHandler` is not called, because no attempt
    /// has failed.
    func tellOfClosedGate(until deadline: UInt64) {
        if let handler = closedGateHandler { (completionQueue ?? OperationQueues.processing).submit(handler) }
        guard let eventLog, let host = waitingHost?.name else { return }
        let decision = RetryEvent.Decision.waitAtGate(until: retryClock.date(of: deadline))
        let event = RetryEvent(retryCount: retryCount, reason: .closedGate(host: host), decision: decision)
        eventLog.note(.event(.retryDecided(event.naming(request.url))))
    }

    /// The host whose slot the operation waits for: the host of its request, or the host to which it was redirected.
    private var waitingHost: HostKey? { scheduler.object?.host(of: self) ?? hostKey }

    func tell(_ decided: RetryEvent) {
        let event = decided.naming(request.url)
        eventLog?.note(.event(.retryDecided(event)))
        guard let handler = retryHandler else { return }
        (completionQueue ?? OperationQueues.processing).submit { [self] in handler(self, event) }
    }

    // MARK: Waiting

    /// Waits after an attempt, then handles the event `retryDue`.
    func awaitRetry(after attempt: Attempt) {
        let wait = core.withLock { _ -> RetryDelay? in
            // From now on, the end of the wait releases the operation.
            guard isBackingOff(after: attempt), let wait = attempt.wait else { return nil }
            wait.operation = self
            return wait
        }
        // If the wait has no deadline, the pending answer will end it.
        guard let wait, wait.due < .max else { return }
        end(wait, of: attempt, at: wait.due)
        if let network = wait.network { end(wait, of: attempt, withReturnOf: network) }
    }

    private func isBackingOff(after attempt: Attempt) -> Bool {
        let life = lifecycle.value
        return life.isBackingOff && life.attemptNumber == attempt.number
    }

    /// Ends the wait at a deadline of the clock, unless it has ended earlier.
    func end(_ wait: RetryDelay, of attempt: Attempt, at due: UInt64) {
        let number = attempt.number
        let timer = retryClock.schedule(at: due) { [weak self] in self?.handle(.retryDue(number)) }
        let isOver = core.withLock { _ in
            guard attempt.wait === wait else { return true }
            wait.timers.append(timer)
            return false
        }
        if isOver { timer.cancel() }
    }

    /// Ends the wait after an attempt, because the next attempt is due or no longer needed.
    func endWait(of attempt: Attempt) {
        let wait = core.withLock { _ in attempt.wait.take() }
        wait?.end()
    }

    /// Returns the request of a further attempt. A body stream can be read only once, so it must be replayable. Calls
    /// user code.
    func replayedRequest() throws(URLError) -> URLRequest {
        let request = self.request
        guard let stream = request.httpBodyStream else { return request }
        if core.withLock({ $0.authentication?.takeIsBodyUnread() ?? false }) { return request }
        guard let fresh = freshBodyStream(for: stream) else {
            throw URLError(
                .requestBodyStreamExhausted, url: request.url,
                "The body must be sent again, but its stream cannot be read twice.")
        }
        inputStream = fresh
        return self.request
    }
}

extension URLError {
    /// The `userInfo` key of an operation's error for the reason why its `RetryPolicy` did not retry the request, a
    /// `RetryEvent.Refusal`.
    public static let retryRefusalKey = "ConvoyRetryRefusal"

    /// Whether the transport has determined that no byte of the request was sent.
    fileprivate var isMarkedAsUnsent: Bool { userInfo[URLError.nothingWasSentKey] as? Bool == true }

    /// Returns whether this error shows that the server received nothing of the request, because it was not sent or no
    /// connection was established.
    func provesThatNothingWasSent(of request: URLRequest) -> Bool {
        // If a different URL failed, there was a redirect, so the request was sent and answered.
        if let failed = userInfo[NSURLErrorFailingURLErrorKey] as? URL, failed != request.url { return false }
        return isMarkedAsUnsent
            || [.cannotConnectToHost, .cannotFindHost, .dnsLookupFailed, .notConnectedToInternet].contains(code)
    }
}

/// The `Retry-After` header field: seconds, or a date (RFC 9110, section 10.2.3).
package enum RetryAfter {
    /// Returns the number of seconds from now; nil if the value is invalid. A number that is too large is clamped.
    package static func seconds(_ text: String) -> TimeInterval? {
        let text = text.trimmingCharacters(in: .whitespaces)
        if !text.isEmpty, text.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) {
            return TimeInterval(Int64(text) ?? .max)
        }
        guard let date = HTTPDate.parse(text) else { return nil }
        return max(0, TimeInterval(date) - Date().timeIntervalSince1970)
    }
}

/// A network whose return ends the wait for a retry.
struct NetworkCondition {
    let target: NetworkTarget
    /// Whether the route was missing when the attempt failed.
    let isGone: Bool
}

/// The wait between an attempt that has ended and the next one. Guarded by the operation's lock.
final class RetryDelay: @unchecked Sendable {
    /// The time on the clock at which the next attempt is due; the maximum value if an answer ends the wait.
    let due: UInt64
    /// The network whose return ends the wait early, if any.
    let network: NetworkCondition?
    /// The waiting operation, which this reference keeps alive.
    var operation: URLConnectionOperation?
    /// The timers that end the wait. The first one that fires ends it.
    var timers: [any ClockTimer] = []
    var networkWait: NetworkReturn.Wait?

    init(until due: UInt64, or network: NetworkCondition? = nil) { (self.due, self.network) = (due, network) }

    /// Ends the wait. Call it without holding the lock, after the attempt has released it.
    func end() {
        for timer in timers { timer.cancel() }
        (operation, networkWait, timers) = (nil, nil, [])
    }
}

/// The record of an operation's retries, created only when needed. Guarded by the operation's lock.
final class RetryRecord: @unchecked Sendable {
    /// The total number of retries.
    var count = 0
    /// The number of retries made by the policy since the transfer last made progress.
    var counted = 0
    /// The largest number of body bytes transferred in any attempt.
    var furthest: Int64 = 0
    /// The number of consecutive immediate retries.
    var immediateInARow = 0
    var began: UInt64?
    /// The reason why the last failure was not retried.
    var refusal: RetryEvent.Refusal?
    /// Whether the next attempt follows a response.
    var followsAnswer = false
    /// Whether the next attempts use HTTP/1.1.
    var avoidsHTTP2 = false
    /// The time on the clock when the network last returned.
    var networkReturned: UInt64?
    /// The number of failed name lookups since `networkReturned`.
    var lookups = 0
    /// The number of consecutive attempts made because a route existed to the host, but not to the Internet.
    var returnsToHost = 0

    /// Records the progress of an attempt. If it exceeds that of all earlier attempts, the retry count is reset.
    func note(_ progress: TransferProgress) {
        let whole = progress.bytesExpectedToReceive ?? .max
        let step = min(16 << 10, max(1, whole / 64))
        guard progress.bytesReceived - furthest >= step else { return }
        furthest = progress.bytesReceived
        counted = 0
    }

    /// Records the progress of an upload that another attempt will resume.
    func noteSent(_ progress: TransferProgress) {
        guard progress.bytesSent > furthest else { return }
        furthest = progress.bytesSent
        counted = 0
    }

    /// A copy that can be read without the lock.
    var copy: RetryRecord {
        let copy = RetryRecord()
        (copy.count, copy.counted, copy.began) = (count, counted, began)
        return copy
    }
}
