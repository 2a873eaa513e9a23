import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// Handlers for authentication challenges.
extension URLConnectionOperation {
    /// A handler that answers a challenge by calling `answer` once, immediately or later, on any thread. Until then the
    /// operation holds no slot in its queue. If `answer` is released without being called, the default applies.
    public typealias AuthenticationChallengeHandler =
        @Sendable (
            _ operation: URLConnectionOperation, _ challenge: AuthenticationChallenge,
            _ answer: @escaping @Sendable (AuthenticationDisposition) -> Void
        ) -> Void

    /// The handler called for each 401 and 407 with a supported method: Basic (RFC 7617), Digest (RFC 7616), Bearer
    /// (RFC 6750), and NTLM and Negotiate (RFC 4559) if libcurl supports them. The strongest method comes first. The
    /// exchange has already ended, and the answer begins another one, in which the body is sent again. A body stream
    /// must be a `ReplayableBodyStream`; otherwise the operation fails with `URLError.requestBodyStreamExhausted`.
    ///
    /// The handler is called on `completionQueue`, or on an internal queue if that is nil. Without a handler,
    /// challenges are answered from `credential` and the credential store, and a refused credential is not sent again.
    /// The `authenticator` handles a 401 response to its token.
    public final var authenticationChallengeHandler: AuthenticationChallengeHandler? {
        get { core.withLock { $0.rareHandlers?.challenge } }
        set { setHandler(\.challenge, newValue) }
    }
}

/// Methods that answer the challenges of servers and proxies.
extension URLConnectionOperation {
    /// Returns an authorizer, based on challenges to earlier operations, for an operation that has not been challenged
    /// itself. Without such challenges, returns nil at almost no cost.
    func rememberingRecord(
        for request: TransferRequest, over configuration: ConnectionConfiguration
    ) -> AuthenticationRecord? {
        guard !AuthorizationMemory.shared.isEmpty else { return nil }
        // A transfer with an authorizer is not shared.
        if coalescesIdenticalRequests, !configuration.isAsked(about: request.target) { return nil }
        return authenticationRecord
    }

    /// The operation's authentication record, created on first use.
    private var authenticationRecord: AuthenticationRecord {
        // Create the credential store, in which accepted answers are saved.
        if shouldUseCredentialStorage { _ = credentialStore }
        let source = core.withLock { $0.credentialSource }
        flags.insert(.authentication)
        return core.withLock { core in
            let work = core.authenticationWork
            let record = work.record ?? AuthenticationRecord(source)
            work.record = record
            return record
        }
    }

    /// Returns the error for a response that does not prove that the server knows the password; nil if the response may
    /// be received. A cached response contains only the proof for an earlier request.
    func proofFailure(of head: ResponseHead) -> URLError? {
        guard let record = core.withLock({ $0.authentication?.record }), head.cacheUse == nil, !head.asksForCredentials,
            let server = AuthenticatingServer(head.url),
            let failure = record.proofFailure(at: server, info: head.values(of: "Authentication-Info"))
        else { return nil }
        return URLError(.badServerResponse, url: head.url, failure.description, underlying: failure)
    }

    /// Returns the next attempt, which answers a response's challenge; nil if the response is the result.
    func retryForAuthentication(_ head: ResponseHead, _ attempt: Attempt) -> NextAttempt? {
        guard let next = answer(to: head, attempt) else { return nil }
        continueBehindRedirects(of: attempt)
        return next
    }

    private func answer(to head: ResponseHead, _ attempt: Attempt) -> NextAttempt? {
        if let next = retryForToken(head, attempt) { return next }
        // A 407 received through a tunnel does not come from the proxy.
        let isProxy = head.statusCode == 407 && Target(head.url).map(connectionConfiguration.tunnelsIfProxied) != true
        guard head.statusCode == 401 || isProxy else {
            core.withLock { $0.authentication?.record }?.noteSuccess(
                except: nil, at: AuthenticatingServer(head.url),
                info: head.cacheUse == nil ? head.values(of: "Authentication-Info") : [])
            return nil
        }
        guard let server = isProxy ? proxyServer(for: head.url) : AuthenticatingServer(head.url) else { return nil }
        let fields = head.values(of: isProxy ? "Proxy-Authenticate" : "WWW-Authenticate")
        let record = authenticationRecord
        record.noteSuccess(except: server, at: nil, info: [])
        return answer(record.evaluate(fields, of: server), head, or: .heldResponse, attempt)
    }

    /// Returns the next attempt for a tunnel refused by a proxy; nil if the error is the result.
    func retryForTunnel(_ error: any Error, _ attempt: Attempt) -> NextAttempt? {
        guard let error = error as? URLError, let fields = error.userInfo[URLError.proxyChallengesKey] as? [String],
            let url = error.userInfo[NSURLErrorFailingURLErrorKey] as? URL, let server = proxyServer(for: url)
        else { return nil }
        let verdict = authenticationRecord.evaluate(fields, of: server)
        guard let next = answer(verdict, nil, or: .failure(error), attempt) else { return nil }
        continueBehindRedirects(of: attempt)
        // The body of a redirected request may have been read.
        core.withLock { $0.authentication?.isBodyUnread = attempt.redirection == nil }
        return next
    }

    /// Returns whether a response asks for credentials that may be available, so that another request may follow.
    func mayAnswer(_ head: ResponseHead) -> Bool {
        guard head.asksForCredentials else { return false }
        if authenticationChallengeHandler != nil || delegate(interestedIn: .challenges) != nil { return true }
        let (source, hasAuthenticator) = core.withLock { ($0.credentialSource, $0.authenticator != nil) }
        return hasAuthenticator || source.own != nil || source.store != nil || !source.ofProxies.isEmpty
    }

    /// Makes the next attempt continue from the target of this attempt's redirects.
    private func continueBehindRedirects(of attempt: Attempt) {
        let old = core.withLock { core in
            let old = core.authentication?.continuation
            guard let (request, followed) = attempt.redirection, let first = core.request.url else {
                core.authentication?.continuation = nil
                return old
            }
            noteOtherRequest()
            flags.insert(.authentication)
            let work = core.authenticationWork
            work.continuation = AuthenticationWork.Continuation(
                request: request, place: RedirectContinuation(first: first, followed: followed),
                redirects: core.redirects ?? [], bearsToken: work.bearsToken(request))
            return old
        }
        // The old continuation's request may hold the last reference to a user's stream, so it is released outside the
        // lock.
        withExtendedLifetime(old) {}
    }

    private func proxyServer(for url: URL) -> AuthenticatingServer? {
        Target(url).flatMap(connectionConfiguration.proxyServer)
    }

    // MARK: Responding to challenges

    private func answer(
        _ verdict: AuthenticationVerdict, _ head: ResponseHead?, or otherwise: Attempt.PresetOutcome, _ attempt: Attempt
    ) -> NextAttempt? {
        switch verdict {
        case .none: return nil
        case .sendAgain: return .atOnce
        case .ask(let questions):
            if authenticationChallengeHandler != nil || delegate(interestedIn: .challenges) != nil {
                return .whenAnswered(for: .challenge) { [self] in ask(questions[...], head, or: otherwise, attempt) }
            }
            return answerByDefault(questions[...]) ? .atOnce : nil
        }
    }

    /// Answers with a known credential, unless one was refused.
    private func answerByDefault(_ questions: ArraySlice<AuthenticationQuestion>) -> Bool {
        guard questions.allSatisfy({ !$0.isRefused }),
            let question = questions.first(where: { $0.proposedCredential != nil }),
            let credential = question.proposedCredential
        else { return false }
        return authenticationRecord.answer(question, with: credential, keeps: false)
    }

    /// Passes the first answerable challenge to the handler.
    private func ask(
        _ questions: ArraySlice<AuthenticationQuestion>, _ head: ResponseHead?,
        or otherwise: Attempt.PresetOutcome, _ attempt: Attempt
    ) {
        guard let question = questions.first else { return settle(otherwise, attempt) }
        // User code may keep the answer forever, so the answer must not retain the operation or its handler; a waiting
        // operation retains itself. The answer retains the attempt, so that a late answer does not affect a newer
        // attempt.
        let answer = AuthenticationAnswer { [weak self] disposition in
            self?.take(disposition, questions, question, head, or: otherwise, attempt)
        }
        let challenge = AuthenticationChallenge(
            protectionSpace: question.space, proposedCredential: question.proposedCredential,
            previousFailureCount: question.previousFailureCount, failureResponse: head?.urlResponse)
        (completionQueue ?? OperationQueues.processing).submit { [self] in
            // If the operation was cancelled in the meantime, its handlers have been released.
            guard !isFinished else { return }
            if let handler = authenticationChallengeHandler {
                handler(self, challenge) { answer.give($0) }
            } else if let delegate = delegate(interestedIn: .challenges) {
                delegate.operation(self, didReceive: challenge) { answer.give($0) }
            } else {
                answer.give(.performDefaultHandling)
            }
        }
    }

    private func take(
        _ disposition: AuthenticationDisposition, _ questions: ArraySlice<AuthenticationQuestion>,
        _ question: AuthenticationQuestion, _ head: ResponseHead?, or otherwise: Attempt.PresetOutcome, _ attempt: Attempt
    ) {
        switch disposition {
        case .useCredential(let credential):
            accept(authenticationRecord.answer(question, with: credential, keeps: true), attempt)
        case .useToken(let token): accept(authenticationRecord.answer(question, withToken: token), attempt)
        case .performDefaultHandling:
            if answerByDefault(questions) { handle(.retryDue(attempt.number)) } else { settle(otherwise, attempt) }
        case .cancel:
            let error = URLError(
                .userCancelledAuthentication, url: request.url, "The authentication challenge was cancelled.")
            settle(.failure(error), attempt)
        case .rejectProtectionSpace:
            authenticationRecord.reject(question)
            ask(questions.dropFirst(), head, or: otherwise, attempt)
        }
    }

    private func accept(_ canBeSent: Bool, _ attempt: Attempt) {
        guard !canBeSent else { return handle(.retryDue(attempt.number)) }
        let error = URLError(
            .userAuthenticationRequired, url: request.url,
            "The credential does not suit the authentication method, or contains characters that the method forbids."
        )
        settle(.failure(error), attempt)
    }

    /// Makes the next attempt end with an outcome instead of sending the request.
    private func settle(_ settlement: Attempt.PresetOutcome, _ attempt: Attempt) {
        core.withLock { _ in attempt.settlement = settlement }
        handle(.retryDue(attempt.number))
    }

    /// Ends an attempt with a preset outcome. Returns false if the attempt has no response to deliver.
    func end(_ attempt: Attempt, by settlement: Attempt.PresetOutcome) -> Bool {
        switch settlement {
        case .failure(let error): end(attempt, with: .settled(error))
        case .heldResponse:
            guard attempt.body.hasPlace, let transport = core.withLock({ _ in attempt.transport }) else { return false }
            // In the `working` phase, a stop can end the attempt while it waits for a user's stream.
            if advance(attempt, to: .working(stop: nil)) {
                transport.perform { [self] in attempt.deliverHeldResponse(of: self) }
            } else {
                end(attempt, with: .stopped)
            }
        }
        return true
    }
}

/// Methods that wait for an `Authenticator`'s token, send it, and handle a 401 response to it.
extension URLConnectionOperation {
    /// Obtains the token for a starting attempt. Returns false if the attempt has ended, because the next attempt waits
    /// for the refresh or because the operation fails.
    func obtainToken(for attempt: Attempt) -> Bool {
        guard let authenticator = core.withLock({ $0.authenticator }) else { return true }
        let latch = TwoPartyLatch()
        switch authenticator.next(waiter(attempt, latch)) {
        case .use(let grant):
            flags.insert(.authentication)
            core.withLock { $0.authenticationWork.token = grant }
            return true
        case .wait:
            // If `didEnd` returns false, an earlier stop has ended the attempt.
            guard didEnd(attempt) else { return false }
            proceed(to: .whenAnswered(for: .token) { [self] in meet(latch, attempt) }, after: attempt)
            return false
        case .fail(let error):
            end(attempt, with: .settled(error))
            return false
        }
    }

    /// Returns the request with the token.
    func authorized(_ request: TransferRequest, with token: AccessToken) throws -> TransferRequest {
        guard let value = BearerAuthorization.value(token: token.value) else { throw AuthenticatorError.unusableToken }
        return try request.with(authorization: value)
    }

    /// Returns the next attempt after a response to a request with a token; nil if the response is the result.
    func retryForToken(_ head: ResponseHead, _ attempt: Attempt) -> NextAttempt? {
        guard head.statusCode == 401,
            let (authenticator, grant, hasAsked) = core.withLock({ $0.refusedToken(by: head, attempt) })
        else { return nil }
        let latch = TwoPartyLatch()
        let waiter = waiter(attempt, latch)
        let step: Authenticator.Step? =
            hasAsked ? authenticator.stepIfSuperseded(grant, waiter) : authenticator.refused(grant, waiter)
        switch step {
        case .use:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: false) }
            return .atOnce
        case .wait:
            core.withLock { $0.authentication?.noteTokenRetry(afterRefresh: true) }
            return .whenAnswered(for: .token) { [self] in meet(latch, attempt) }
        case .fail(let error):
            core.withLock { _ in attempt.settlement = .failure(error) }
            return .atOnce
        case nil: return nil
        }
    }

    /// Returns the closure that the authenticator calls when the refresh has ended.
    private func waiter(_ attempt: Attempt, _ latch: TwoPartyLatch) -> Authenticator.Waiter {
        { [weak self, weak attempt] result in
            guard let self, let attempt else { return }
            if case .failure(let error) = result { core.withLock { _ in attempt.settlement = .failure(error) } }
            meet(latch, attempt)
        }
    }

    /// Records one of two events: the refresh has ended, or the operation has begun to wait. After both, the next
    /// attempt begins.
    private func meet(_ latch: TwoPartyLatch, _ attempt: Attempt) {
        if latch.arrive() { handle(.retryDue(attempt.number)) }
    }
}

/// A latch that opens after two events, which may occur in any order.
private final class TwoPartyLatch: Sendable {
    private let hasOneCome = Atomic<Bool>(false)

    /// Records one of the two events. Returns true if the other one has already been recorded.
    func arrive() -> Bool { hasOneCome.exchange(true, ordering: .acquiringAndReleasing) }
}

extension OperationCore {
    /// Returns the token refused by a 401, its authenticator, and whether this operation has already requested a
    /// refresh; nil if no token was refused or the maximum number of retries is reached.
    fileprivate func refusedToken(
        by head: ResponseHead, _ attempt: Attempt
    ) -> (Authenticator, Authenticator.Grant, hasAsked: Bool)? {
        guard let authenticator, let authentication = self.authentication, let grant = authentication.token,
            authentication.mayRetryForToken
        else {
            return nil
        }
        // A redirect to another origin removes the token, and a redirect back does not restore it. For a shared
        // transfer, only the URL of the last request is known.
        let isAtHome = self.redirects?.isEmpty ?? true || Target.isSame(request.url, head.url)
        let wasSent = (attempt.redirection?.request).map(authentication.bearsToken) ?? isAtHome
        return wasSent ? (authenticator, grant, authentication.hasAskedForRefresh) : nil
    }
}

/// The authentication state of an operation, created only for the few operations that need it. Guarded by the
/// operation's lock.
final class AuthenticationWork: @unchecked Sendable {
    /// The challenges and answers; nil before the first challenge.
    var record: AuthenticationRecord?
    /// The token sent with the current attempt.
    var token: Authenticator.Grant?
    /// The number of times that the request was sent again because its token was refused.
    private(set) var tokenRetries = 0
    /// Whether a response to this operation has caused a refresh.
    private(set) var hasAskedForRefresh = false

    /// The maximum value of `tokenRetries`.
    private static let mostTokenRetries = 3

    var mayRetryForToken: Bool { tokenRetries < Self.mostTokenRetries }

    func noteTokenRetry(afterRefresh: Bool) {
        tokenRetries += 1
        if afterRefresh { hasAskedForRefresh = true }
    }
    /// The request from which the next attempts start, if it is not the operation's own request.
    var continuation: Continuation?
    /// Whether the last attempt has not read any of the request's body.
    var isBodyUnread = false

    func takeIsBodyUnread() -> Bool {
        defer { isBodyUnread = false }
        return isBodyUnread
    }

    /// The request at the end of the redirects that preceded a challenge. Earlier requests are not sent again, because
    /// one of them may have posted a form before it was redirected to a page that requires authentication.
    struct Continuation {
        let request: URLRequest
        let place: RedirectContinuation
        let redirects: [RedirectEvent]
        /// Whether the request still carries the token of the operation's own request, which a redirect may remove.
        let bearsToken: Bool
    }

    /// Returns whether a request that follows redirects carries the token.
    func bearsToken(_ request: URLRequest) -> Bool {
        guard let token, let value = BearerAuthorization.value(token: token.token.value) else { return false }
        return request.value(forHTTPHeaderField: "Authorization") == value
    }
}

/// A handler's answer to a challenge, which takes effect once. If the object is released without an answer, the default
/// handling applies.
final class AuthenticationAnswer: Sendable {
    private let then: Locked<(@Sendable (AuthenticationDisposition) -> Void)?>

    init(_ then: @escaping @Sendable (AuthenticationDisposition) -> Void) { self.then = Locked(then) }

    deinit { give(.performDefaultHandling) }

    func give(_ disposition: AuthenticationDisposition) {
        let then = self.then.withLock { $0.take() }
        then?(disposition)
    }
}
