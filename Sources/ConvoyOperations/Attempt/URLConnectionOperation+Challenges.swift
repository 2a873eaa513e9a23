import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that evaluate the challenges of servers and proxies, and request the answers.
extension URLConnectionOperation {
    /// A handler that answers a challenge by calling `answer` once, immediately or later, on any thread. Until then the
    /// operation holds no slot in its queue. If `answer` is released without being called, the default applies.
    public typealias AuthenticationChallengeHandler =
        @Sendable (
            _ operation: URLConnectionOperation, _ challenge: AuthenticationChallenge,
            _ answer: @escaping @Sendable (AuthenticationDisposition) -> Void
        ) -> Void

    /// The handler called for each 401 and 407 with a supported method: Basic (RFC 7617), Digest (RFC 7616), Bearer
    /// (RFC 6750), and NTLM and Negotiate (RFC 4559) if libcurl supports them. The strongest method comes first. By
    /// then the exchange has ended. The answer begins a new exchange, which sends the body again. A body stream must be
    /// a `ReplayableBodyStream`; otherwise the operation fails with `URLError.requestBodyStreamExhausted`.
    ///
    /// The handler is called on `completionQueue`, or on an internal queue if that is nil. Without a handler,
    /// challenges are answered from `credential` and the credential store, and a refused credential is not sent again.
    /// The `authenticator` handles a 401 response to its token.
    public final var authenticationChallengeHandler: AuthenticationChallengeHandler? {
        get { handler(\.challenge) }
        set { setHandler(\.challenge, newValue) }
    }

    // MARK: Remembered challenges

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
        declare(.authentication)
        return core.withLock { core in
            let source = core.credentialSource
            return core.authenticationWork.record.made(by: AuthenticationRecord(source))
        }
    }

    /// The operation's authentication record; nil before the first challenge.
    private var knownRecord: AuthenticationRecord? { core.withLock { $0.authentication?.record } }

    /// Returns the error for a response that does not prove that the server knows the password; nil if the response may
    /// be received. A cached response contains only the proof for an earlier request.
    func proofFailure(of head: ResponseHead) -> URLError? {
        guard let record = knownRecord, head.cacheUse == nil, !head.asksForCredentials,
            let server = AuthenticatingServer(head.url),
            let failure = record.proofFailure(at: server, info: head.values(of: "Authentication-Info"))
        else { return nil }
        return URLError(.badServerResponse, url: head.url, failure.description, underlying: failure)
    }

    // MARK: Facts

    /// Returns whether a response asks for credentials that may be available, so that another request may follow.
    func mayAnswer(_ head: ResponseHead) -> Bool {
        guard head.asksForCredentials else { return false }
        if asksForCredentials { return true }
        let (source, hasAuthenticator) = core.withLock { ($0.credentialSource, $0.authenticator != nil) }
        return hasAuthenticator || source.own != nil || source.store != nil || !source.ofProxies.isEmpty
    }

    /// Whether a handler or a delegate answers challenges.
    private var asksForCredentials: Bool {
        authenticationChallengeHandler != nil || delegate(interestedIn: .challenges) != nil
    }

    /// Returns how the challenges of a response can be answered. If the response has no challenges, records that the
    /// server has accepted earlier answers.
    func challenge(of head: ResponseHead) -> AttemptFacts.Challenge {
        // A 407 received through a tunnel does not come from the proxy.
        let isProxy = head.statusCode == 407 && Target(head.url).map(connectionConfiguration.tunnelsIfProxied) != true
        guard head.statusCode == 401 || isProxy else {
            knownRecord?.noteSuccess(
                except: nil, at: AuthenticatingServer(head.url),
                info: head.cacheUse == nil ? head.values(of: "Authentication-Info") : [])
            return .none
        }
        guard let server = isProxy ? proxyServer(for: head.url) : AuthenticatingServer(head.url) else { return .none }
        let fields = head.values(of: isProxy ? "Proxy-Authenticate" : "WWW-Authenticate")
        let record = authenticationRecord
        record.noteSuccess(except: server, at: nil, info: [])
        return challenge(record.evaluate(fields, of: server))
    }

    /// Returns how the challenges of a proxy that refused a tunnel can be answered.
    func challenge(ofTunnelIn error: URLError) -> AttemptFacts.Challenge {
        guard let fields = error.userInfo[URLError.proxyChallengesKey] as? [String],
            let url = error.userInfo[NSURLErrorFailingURLErrorKey] as? URL, let server = proxyServer(for: url)
        else { return .none }
        return challenge(authenticationRecord.evaluate(fields, of: server))
    }

    private func challenge(_ verdict: AuthenticationVerdict) -> AttemptFacts.Challenge {
        switch verdict {
        case .none: return .none
        case .sendAgain: return .answered
        case .ask(let questions):
            if asksForCredentials { return .open(questions) }
            return answerByDefault(questions[...]) ? .answered : .none
        }
    }

    private func proxyServer(for url: URL) -> AuthenticatingServer? {
        Target(url).flatMap(connectionConfiguration.proxyServer)
    }

    /// Answers with a known credential, unless one was refused.
    private func answerByDefault(_ questions: ArraySlice<AuthenticationQuestion>) -> Bool {
        guard questions.allSatisfy({ !$0.isRefused }),
            let question = questions.first(where: { $0.proposedCredential != nil }),
            let credential = question.proposedCredential
        else { return false }
        return authenticationRecord.answer(question, with: credential, keeps: false)
    }

    // MARK: Asking

    /// Sets where the next attempt begins.
    ///
    /// - Parameter isBehind: Whether the attempt answers a challenge, and begins at the target of this attempt's
    ///   redirects. A retry starts from the operation's own request, because redirects may lead elsewhere.
    func setContinuation(behindRedirects isBehind: Bool, of attempt: Attempt, after outcome: AttemptOutcome) {
        let old = core.withLock { core in
            let old = core.authentication?.continuation.take()
            guard isBehind else { return old }
            // The body of a redirected request may have been read, but not that of a request whose tunnel was refused.
            if case .failed = outcome { core.authentication?.isBodyUnread = attempt.rare.redirection == nil }
            guard let (request, followed) = attempt.rare.redirection, let first = core.request.url else { return old }
            declare(.authentication)
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

    /// Passes the first answerable challenge to the handler.
    ///
    /// - Parameters:
    ///   - head: The response with the challenges; nil if a tunnel was refused.
    ///   - preset: The outcome of the operation if the challenges are not answered.
    func ask(
        _ questions: ArraySlice<AuthenticationQuestion>, _ head: ResponseHead?, or preset: Attempt.PresetOutcome,
        _ attempt: Attempt
    ) {
        guard let question = questions.first else { return repeatLater(attempt, with: preset) }
        // User code may keep the answer forever, so the answer must not retain the operation or its handler; a waiting
        // operation retains itself. The answer retains the attempt, so that a late answer does not affect a newer
        // attempt. If the answer is released unused, the default handling applies.
        let answer = Once<AuthenticationDisposition>(orElse: .performDefaultHandling) { [weak self] disposition in
            self?.take(disposition, questions, question, head, or: preset, attempt)
        }
        let challenge = AuthenticationChallenge(
            protectionSpace: question.space, proposedCredential: question.proposedCredential,
            previousFailureCount: question.previousFailureCount, failureResponse: head?.urlResponse)
        (completionQueue ?? OperationQueues.processing).submit { [self] in
            // If the operation was cancelled in the meantime, its handlers have been released.
            guard !isFinished else { return }
            if let handler = authenticationChallengeHandler {
                handler(self, challenge) { answer.set($0) }
            } else if let delegate = delegate(interestedIn: .challenges) {
                delegate.operation(self, didReceive: challenge) { answer.set($0) }
            } else {
                answer.set(.performDefaultHandling)
            }
        }
    }

    private func take(
        _ disposition: AuthenticationDisposition, _ questions: ArraySlice<AuthenticationQuestion>,
        _ question: AuthenticationQuestion, _ head: ResponseHead?, or preset: Attempt.PresetOutcome, _ attempt: Attempt
    ) {
        switch disposition {
        case .useCredential(let credential):
            accept(authenticationRecord.answer(question, with: credential, keeps: true), attempt)
        case .useToken(let token): accept(authenticationRecord.answer(question, withToken: token), attempt)
        case .performDefaultHandling: repeatLater(attempt, with: answerByDefault(questions) ? nil : preset)
        case .cancel:
            let error = URLError(
                .userCancelledAuthentication, url: request.url, "The authentication challenge was cancelled.")
            repeatLater(attempt, with: .failure(error))
        case .rejectProtectionSpace:
            authenticationRecord.reject(question)
            ask(questions.dropFirst(), head, or: preset, attempt)
        }
    }

    private func accept(_ canBeSent: Bool, _ attempt: Attempt) {
        let error = URLError(
            .userAuthenticationRequired, url: request.url,
            "The authentication method does not support the credential, or forbids some of its characters."
        )
        repeatLater(attempt, with: canBeSent ? nil : .failure(error))
    }

    /// Begins the next attempt as soon as the operation has a slot.
    ///
    /// - Parameter preset: The outcome with which that attempt ends instead of sending the request.
    func repeatLater(_ attempt: Attempt, with preset: Attempt.PresetOutcome?) {
        if let preset { core.withLock { _ in attempt.settlement = preset } }
        handle(.retryDue(attempt.number))
    }
}
