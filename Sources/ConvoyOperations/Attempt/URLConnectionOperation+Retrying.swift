import ConvoyReachability
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that collect the facts for `NextStep.decide`, and perform the step that it returns.
extension URLConnectionOperation {
    /// A handler called with each retry decision about a failed attempt.
    public typealias RetryHandler = @Sendable (_ operation: URLConnectionOperation, _ event: RetryEvent) -> Void

    /// The handler called once for each failed attempt, with the decision to retry or to give up, and the reason. It is
    /// not called for an operation that waits at the closed gate of its host, which has not failed; an ``EventMonitor``
    /// and `RequestOperationQueue.closedGates` report that wait. It runs on `completionQueue`, or on an internal queue
    /// if that is nil.
    public final var retryHandler: RetryHandler? {
        get { handler(\.retry) }
        set { setHandler(\.retry, newValue) }
    }

    /// The number of times the request has been retried.
    public final var retryCount: Int { extra(\.retry)?.count ?? 0 }

    /// The reason why the `retryPolicy` did not retry the failed request; nil if it has not failed, or the policy does
    /// not cover the failure.
    public final var retryRefusal: RetryEvent.Refusal? { extra(\.retry)?.refusal }

    package final var retryClock: any SchedulingClock { settings.values.holder.clock }

    /// Counts retries made in an earlier process against the policy's maximum. Call this before the operation is
    /// started.
    package final func countEarlierRetries(_ count: Int) { core.withLock { $0.retryRecord.counted = count } }

    /// Whether the operation has failed and the server certainly received no part of its request.
    package final var wasCertainlyNotSent: Bool {
        redirects.isEmpty && (error as? URLError)?.provesThatNothingWasSent(of: request.url) ?? false
    }

    // MARK: Facts

    /// Decides what follows an attempt. Stores and reports the decision.
    func nextStep(after outcome: AttemptOutcome, _ attempt: Attempt) -> NextStep.Decision {
        guard outcome.mayBeRetried else { return NextStep.decide(after: outcome, AttemptFacts(), RetryRecord(), nil) }
        let (record, policy) = core.withLock { ($0.retry ?? RetryRecord(), $0.common.values.retryPolicy) }
        let facts = facts(about: outcome, attempt, policy)
        let decision = NextStep.decide(after: outcome, facts, record, policy)
        set(RetryRecord?.some(decision.record)) { swap(&$0.retry, &$1) }
        if let event = decision.event { report(event) }
        return decision
    }

    private func facts(about outcome: AttemptOutcome, _ attempt: Attempt, _ policy: RetryPolicy?) -> AttemptFacts {
        let request = transferRequest
        var facts = AttemptFacts()
        facts.method = request.method
        facts.isRedirected = !redirects.isEmpty
        facts.canSendBodyAgain = canReplay(request.bodyStream)
        facts.isResumable = worker?.isResumable ?? false
        facts.isProbe = reportsAnswer
        facts.progress = attempt.progress
        facts.now = retryClock.now
        facts.timeLeft = timeLeft(at: facts.now)
        switch outcome {
        case .received(let head?, _):
            facts.host = contactedHost(head.url)
            facts.rejectedToken = rejectedToken(by: head, attempt)
            if facts.rejectedToken == nil { facts.challenge = challenge(of: head) }
        case .refused(_, let head, _, _): facts.host = contactedHost(head.url)
        case .failed(let failure as URLError, _):
            // If a different URL failed, a redirect was followed.
            let failed = failure.userInfo[NSURLErrorFailingURLErrorKey] as? URL
            facts.isOwnURL = failed == nil || failed == request.url?.withoutUserInfo
            facts.host = contactedHost(failed)
            facts.nothingWasSent = !facts.isRedirected && failure.provesThatNothingWasSent(of: request.url)
            facts.waitsForConnectivity = waitsForConnectivity
            if facts.waitsForConnectivity || policy?.retriesWhenNetworkReturns == true {
                facts.network = networkTarget.map { NetworkCondition(target: $0, isGone: $0.isOutOfReach) }
            }
            facts.challenge = challenge(ofTunnelIn: failure)
        case .stopped, .unusable, .received, .failed, .settled, .succeeded: break
        }
        return facts
    }

    /// Returns the last host that an attempt contacted, after redirects; nil if no limit and no gate applies.
    ///
    /// - Parameter url: The URL of the response or the failure, if known.
    private func contactedHost(_ url: URL?) -> String? {
        guard let own = schedulingHost else { return nil }
        guard let last = redirects.last else { return own }
        return Target.place(of: url ?? last.to)
    }

    /// Reports a decision to the handler and to monitors.
    private func report(_ decided: RetryEvent) {
        let event = decided.naming(request.url)
        eventLog?.note(.event(.retryDecided(event)))
        guard let handler = retryHandler else { return }
        (completionQueue ?? OperationQueues.processing).submit { [self] in handler(self, event) }
    }

    // MARK: Performing

    /// Performs the decision about an attempt that has ended: begins the next attempt, or finishes the operation.
    func perform(_ decision: NextStep.Decision, after outcome: AttemptOutcome, _ attempt: Attempt) {
        if decision.answersChallenge || decision.isCounted {
            setContinuation(behindRedirects: decision.answersChallenge, of: attempt, after: outcome)
        }
        if decision.isCounted, let event = decision.event {
            supervisor?.operation(self, willRetry: event, countedRetries: decision.record.counted)
        }
        if let gate = decision.gate { closeGate(gate) }
        switch decision.step {
        case .finish: store(outcome, of: attempt)
        case .repeatNow: repeatNow(after: attempt)
        case .retry(let seconds, let network):
            delay(RetryDelay(until: Nanoseconds.deadline(seconds, after: retryClock.now), or: network), after: attempt)
        case .awaitNetwork(let target):
            eventLog?.note(.delay(for: .connectivity))
            let network = NetworkCondition(target: target, isGone: true)
            delay(RetryDelay(until: .max, or: network, for: .connectivity), after: attempt)
        case .ask(.credential(let questions)):
            let head: ResponseHead? = if case .received(let head, _) = outcome { head } else { nil }
            let preset: Attempt.PresetOutcome =
                if case .failed(let error, _) = outcome { .failure(error) } else { .heldResponse }
            wait(for: .challenge, after: attempt) { ask(questions[...], head, or: preset, attempt) }
        case .ask(.token(let rejected)): replace(rejected, after: attempt)
        }
    }

    /// Begins the next attempt immediately, with the slot of the previous attempt. If redirects have led to a different
    /// host, the operation releases its slot and waits for a slot of the new host.
    func repeatNow(after attempt: Attempt) {
        guard !redirects.isEmpty, let scheduler = scheduler.object, let host = schedulingHost,
            scheduler.state.withLock({ $0.host(of: self) }) != host
        else { return handle(.workStopped(attempt.number)) }
        delay(RetryDelay(until: retryClock.now), after: attempt)
    }

    // MARK: The body

    /// Renews the body stream for a further attempt, because a stream can be read only once. Calls user code.
    func renewedBodyStream() throws(URLError) -> InputStream? {
        let request = request
        guard let stream = request.httpBodyStream else { return nil }
        guard let fresh = freshBodyStream(for: stream) else {
            throw URLError(
                .requestBodyStreamExhausted, url: request.url,
                "The body must be sent again, but its stream cannot be read twice.")
        }
        changeRequest { $0.httpBodyStream = fresh }
        return fresh
    }
}

extension URLError {
    /// Whether the transport has determined that no byte of the request was sent.
    var isMarkedAsUnsent: Bool { userInfo[URLError.nothingWasSentKey] as? Bool == true }

    /// Returns whether this error shows that the server received no part of the request, because it was not sent or no
    /// connection was established.
    func provesThatNothingWasSent(of url: URL?) -> Bool {
        // If a different URL failed, a redirect was followed, so the request was sent and answered.
        if let failed = userInfo[NSURLErrorFailingURLErrorKey] as? URL, failed != url { return false }
        return isMarkedAsUnsent
            || [.cannotConnectToHost, .cannotFindHost, .dnsLookupFailed, .notConnectedToInternet].contains(code)
    }

    /// Whether the error reports that the name of a proxy could not be resolved.
    var isOfProxyName: Bool {
        guard let underlying = userInfo[NSUnderlyingErrorKey] as? NSError else { return false }
        // 5 is CURLE_COULDNT_RESOLVE_PROXY in <curl/curl.h>.
        return underlying.domain == Self.libcurlErrorDomain && underlying.code == 5
    }
}
