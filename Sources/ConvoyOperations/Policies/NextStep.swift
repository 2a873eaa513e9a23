import ConvoyReachability
import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The way in which an attempt has ended, before the next step is decided.
enum AttemptOutcome {
    /// The attempt was stopped, and the received bytes are kept.
    case stopped
    /// The received bytes are unusable: the complete body must be requested again.
    case unusable
    /// A response has arrived. Its head is nil if the transport does not provide one.
    ///
    /// - Parameter isFinal: Whether an earlier decision made this response the result.
    case received(ResponseHead?, isFinal: Bool)
    /// The transfer has failed, possibly with a response.
    case failed(any Error, ResponseHead?)
    /// A worker received an unacceptable response.
    case refused(any Error, ResponseHead, data: Data?, object: Any?)
    /// The attempt has failed with an error that is not retried.
    case settled(any Error)
    /// A worker has succeeded with this object.
    case succeeded(Any?, data: Data?)

    /// Whether the next step depends on the facts, the record and the policy.
    var mayBeRetried: Bool {
        switch self {
        case .received(_, let isFinal): !isFinal
        case .failed, .refused: true
        case .stopped, .unusable, .settled, .succeeded: false
        }
    }
}

/// The step that follows an attempt that was not stopped. Only ``decide(after:_:_:_:random:)`` chooses a step;
/// `URLConnectionOperation.perform(_:after:_:)` performs it.
enum NextStep {
    /// The outcome of the attempt becomes the operation's.
    case finish
    /// The next attempt begins immediately and keeps the slot of the current attempt.
    case repeatNow
    /// The next attempt begins after a delay in seconds, or when a lost network returns. The operation waits without a
    /// slot.
    case retry(after: TimeInterval, orWhen: NetworkCondition? = nil)
    /// The next attempt begins as soon as a route to the target exists. The operation waits without a slot.
    case awaitNetwork(NetworkTarget)
    /// The next attempt begins as soon as the question is answered. The operation waits without a slot.
    case ask(Question)

    enum Question {
        /// The credential for one of the challenges, requested from a handler or a delegate.
        case credential([AuthenticationQuestion])
        /// A newer token than the rejected one.
        case token(RejectedToken)
    }

    /// Whether the outcome becomes the operation's.
    var isFinish: Bool {
        if case .finish = self { true } else { false }
    }

    /// The maximum number of consecutive immediate retries of an unsent request.
    fileprivate static let mostImmediateRetries = 3
    /// The time after the return of a network during which its name servers may still be unknown, in seconds.
    fileprivate static let lookupLag: TimeInterval = 30
    /// The delays after failed lookups during `lookupLag`, in seconds.
    fileprivate static let lookupDelays: [TimeInterval] = [1, 3, 9]
}

/// The known facts about an attempt that has ended, apart from its outcome. Each value is read before the decision.
struct AttemptFacts {
    /// The challenges of a response, or of a proxy that refused a tunnel.
    enum Challenge {
        /// The response has no challenges, or none that can be answered.
        case none
        /// A known credential or a new nonce answers the challenges.
        case answered
        /// A handler or a delegate must provide the answer.
        case open([AuthenticationQuestion])
    }

    var method = "GET"
    /// The host that the attempt contacted last; nil if no limit and no gate applies to it.
    var host: String?
    /// Whether redirects were followed. If so, the request was sent and answered, even if the last redirect leads back
    /// to its URL.
    var isRedirected = false
    /// Whether the request has no body, or its body can be read again.
    var canSendBodyAgain = true
    /// Whether the server certainly received no part of the request.
    var nothingWasSent = false
    /// Whether the next attempt resumes where this one ended, so that nothing is done twice.
    var isResumable = false
    /// Whether the attempt passed a closed gate as a probe, which shows whether its host has recovered.
    var isProbe = false
    var progress = TransferProgress()
    var challenge = Challenge.none
    /// The token that the response rejects, if it can be replaced.
    var rejectedToken: RejectedToken?
    /// Whether the operation waits for a network if none is available.
    var waitsForConnectivity = false
    /// Whether the URL of the failure is that of the request.
    var isOwnURL = true
    /// The network that the request needs; nil if it needs none, or if neither the settings nor the policy waits for
    /// it.
    var network: NetworkCondition?
    /// The current time on the operation's clock, in nanoseconds.
    var now: UInt64 = 0
    /// The number of seconds that the operation has left; nil for no limit.
    var timeLeft: TimeInterval?
}

/// A token that a server has rejected with a 401.
struct RejectedToken {
    let authenticator: Authenticator
    let grant: Authenticator.Grant
}

/// A network that an operation needs.
struct NetworkCondition {
    let target: NetworkTarget
    /// Whether the route was missing when the attempt failed.
    let isGone: Bool
}

extension NextStep {
    /// A step, and the changes that it entails.
    struct Decision {
        var step = NextStep.finish
        /// The retries so far, including the retry that the step makes.
        var record: RetryRecord
        /// The retry decision to report to handlers and monitors; nil if there is nothing to report.
        var event: RetryEvent?
        /// Whether the step answers a challenge, so that the next attempt continues at the target of the redirects.
        var answersChallenge = false
        /// Whether the policy makes the retry, which then counts towards its limit.
        var isCounted = false
        /// The gate to close, after a failure that would affect other requests as well.
        var gate: GateClosure?
    }

    /// The closing of a host's gate.
    struct GateClosure {
        let host: String
        /// The time for which the gate stays closed, in seconds.
        let duration: TimeInterval
        /// The maximum time that operations wait for a host that has refused a connection, in seconds, while one
        /// operation at a time probes the host; nil if the host has answered with a 429 or 503.
        let patience: TimeInterval?
    }

    /// Decides what follows an attempt. The first applicable rule determines the decision. The only side effect is that
    /// a retry withdraws from the policy's budget.
    ///
    /// - Parameter random: A number from 0 to 1, for the delay of a retry.
    static func decide(
        after outcome: AttemptOutcome, _ facts: AttemptFacts, _ record: RetryRecord, _ policy: RetryPolicy?,
        random: Double = .random(in: 0...1)
    ) -> Decision {
        var decision = Decision(record: record)
        switch outcome {
        case .stopped, .settled, .succeeded, .received(_, isFinal: true): break
        case .unusable: decision.step = .repeatNow
        case .received(let head, isFinal: false):
            if !decision.answer(facts) { decision.retry(under: policy, facts, head, nil, random) }
        case .refused(_, let head, _, _): decision.retry(under: policy, facts, head, nil, random)
        case .failed(let failure as URLError, let head):
            if decision.answer(facts) || decision.awaitNetwork(failure, facts) || decision.prove(failure, facts)
                || decision.sendUnsent(failure, facts, hasPolicy: policy != nil)
            {
                break
            }
            decision.record.note(facts)
            decision.retry(under: policy, facts, head, failure, random)
        // An error of any other type comes from a worker or from user code, which would only repeat it.
        case .failed: break
        }
        return decision
    }
}

extension NextStep.Decision {
    /// Sends the request again with a token or a credential.
    fileprivate mutating func answer(_ facts: AttemptFacts) -> Bool {
        if let token = facts.rejectedToken {
            step = .ask(.token(token))
        } else {
            switch facts.challenge {
            case .none: return false
            case .answered: step = .repeatNow
            case .open(let questions): step = .ask(.credential(questions))
            }
        }
        answersChallenge = true
        return true
    }

    /// Waits for the network if the attempt failed for lack of one.
    fileprivate mutating func awaitNetwork(_ failure: URLError, _ facts: AttemptFacts) -> Bool {
        guard facts.waitsForConnectivity, !facts.isRedirected, facts.isOwnURL, facts.canSendBodyAgain,
            let network = facts.network
        else { return false }
        switch failure.code {
        case .notConnectedToInternet, .cannotFindHost, .dnsLookupFailed: break
        // A host that refuses a connection has been reached. Without a route to it, the refusal came from elsewhere.
        case .cannotConnectToHost where network.target.isAddress || failure.isOfProxyName: break
        default: return false
        }
        guard network.isGone else { return retryLookup(failure, facts) }
        // A route to the host existed at the start of each of these attempts.
        guard record.returnsToHost <= NextStep.lookupDelays.count else { return false }
        repeatRequest(after: failure, .awaitNetwork(network.target), .waitForNetwork)
        return true
    }

    /// Repeats a failed name lookup for as long as a network that has returned may have no name servers yet.
    private mutating func retryLookup(_ failure: URLError, _ facts: AttemptFacts) -> Bool {
        guard [.cannotFindHost, .dnsLookupFailed].contains(failure.code) || failure.isOfProxyName,
            record.isSoonAfterNetworkReturned(facts.now), record.lookups < NextStep.lookupDelays.count
        else { return false }
        let delay = NextStep.lookupDelays[record.lookups]
        record.lookups += 1
        repeatRequest(after: failure, .retry(after: delay), .retry(after: delay))
        return true
    }

    /// Requests a response that may have been truncated again, once and over HTTP/1.1; only the remaining bytes if
    /// possible.
    fileprivate mutating func prove(_ failure: URLError, _ facts: AttemptFacts) -> Bool {
        guard failure.userInfo[URLError.isUnprovenKey] != nil, facts.canSendBodyAgain, !record.avoidsHTTP2 else {
            return false
        }
        record.avoidsHTTP2 = true
        repeatRequest(after: failure, .repeatNow, .retry(after: 0))
        return true
    }

    /// Repeats a request if no part of it was sent, even without a policy.
    fileprivate mutating func sendUnsent(_ failure: URLError, _ facts: AttemptFacts, hasPolicy: Bool) -> Bool {
        guard facts.nothingWasSent, failure.isMarkedAsUnsent else {
            record.immediateInARow = 0
            return false
        }
        if facts.canSendBodyAgain, record.immediateInARow < NextStep.mostImmediateRetries {
            record.immediateInARow += 1
            repeatRequest(after: failure, .repeatNow, .retry(after: 0))
            return true
        }
        if !hasPolicy {
            let refusal = facts.canSendBodyAgain ? RetryEvent.Refusal.tooManyRetries : .bodyCannotBeSentAgain
            event = RetryEvent(retryCount: record.count, reason: .error(failure), decision: .giveUp(refusal))
        }
        return false
    }

    /// Counts a retry that no policy limits.
    private mutating func repeatRequest(after failure: URLError, _ step: NextStep, _ decision: RetryEvent.Decision) {
        self.step = step
        event = RetryEvent(retryCount: record.count, reason: .error(failure), decision: decision)
        record.count += 1
    }

    /// Retries if the policy covers the failure and allows it.
    ///
    /// - Parameter failure: The error; nil if the response is the failure.
    fileprivate mutating func retry(
        under policy: RetryPolicy?, _ facts: AttemptFacts, _ head: ResponseHead?, _ failure: URLError?, _ random: Double
    ) {
        guard let policy, let began = record.began else { return }
        let attempt = RetryPolicy.FailedAttempt(
            host: facts.host, method: facts.method, statusCode: head?.statusCode, error: failure,
            retryCount: record.count, countedRetries: record.counted,
            elapsed: Nanoseconds.seconds(from: began, to: facts.now),
            retryAfter: failure == nil ? head?["Retry-After"].flatMap(RetryAfter.seconds) : nil,
            timeLeft: facts.timeLeft, canSendBodyAgain: facts.canSendBodyAgain, nothingWasSent: facts.nothingWasSent,
            isResumable: facts.isResumable)
        guard let event = policy.evaluate(attempt, random: random) else { return }
        self.event = event
        switch event.decision {
        case .giveUp(let refusal): record.refusal = refusal
        case .waitAtGate, .waitForNetwork: break
        case .retry(let delay):
            record.count += 1
            record.counted += 1
            record.followsAnswer = failure == nil
            isCounted = true
            let network = policy.retriesWhenNetworkReturns && failure != nil ? facts.network : nil
            step = .retry(after: delay, orWhen: network)
            // Without a route to the host, it was not the host that refused the connection.
            if network?.isGone != true { closeGate(after: event, facts, attempt.retryAfter ?? delay, policy) }
        }
    }

    private mutating func closeGate(
        after event: RetryEvent, _ facts: AttemptFacts, _ delay: TimeInterval, _ policy: RetryPolicy
    ) {
        guard policy.maximumGateDuration > 0, let host = facts.host else { return }
        let duration = min(delay, policy.maximumGateDuration)
        // `host` itself refused the connection if nothing was sent, or if it is the target of a redirect.
        let isRefusal = facts.nothingWasSent || facts.isRedirected
        switch event.reason {
        case .status(429), .status(503):
            gate = NextStep.GateClosure(host: host, duration: duration, patience: nil)
        // A probe that failed for another reason has not shown that the host has recovered.
        case .error(let error) where error.code == .cannotConnectToHost && isRefusal || facts.isProbe:
            gate = NextStep.GateClosure(host: host, duration: duration, patience: policy.longestWait)
        default: break
        }
    }
}

extension RetryRecord {
    /// Returns whether the network returned so recently that its name servers may still be unknown.
    fileprivate func isSoonAfterNetworkReturned(_ now: UInt64) -> Bool {
        networkReturned.map { Nanoseconds.seconds(from: $0, to: now) < NextStep.lookupLag } ?? false
    }

    /// Records that the network returned, and returns the delay before the next attempt, in seconds; nil for none.
    ///
    /// - Parameter isHostAlone: Whether a route exists to the host, but not to the network as a whole. If attempts
    ///   still fail, they must not follow each other without a delay.
    mutating func noteNetworkReturn(at now: UInt64, isHostAlone: Bool) -> TimeInterval? {
        returnsToHost = isHostAlone ? (isSoonAfterNetworkReturned(now) ? returnsToHost : 0) + 1 : 0
        networkReturned = now
        lookups = 0
        let earlier = returnsToHost - 2
        return NextStep.lookupDelays.indices.contains(earlier) ? NextStep.lookupDelays[earlier] : nil
    }

    /// Records the progress of a failed attempt. The body of a response that requests a retry does not count.
    fileprivate mutating func note(_ facts: AttemptFacts) {
        note(facts.progress)
        // The sent bytes of a resumable upload are confirmed; a body that is sent from the start again is not progress.
        if facts.isResumable { noteSent(facts.progress) }
    }
}
