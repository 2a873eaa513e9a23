import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Challenges of servers and proxies, and their answers.
extension URLConnectionOperation {
    /// What authorizes the requests of an operation that nobody has asked; nil where nobody has asked others either, which
    /// costs next to nothing.
    func rememberingRecord(
        for request: TransferRequest, over configuration: ConnectionConfiguration
    ) -> AuthenticationRecord? {
        guard !AuthorizationMemory.shared.isEmpty else { return nil }
        // A transfer with an authorizer is shared with nobody.
        if coalescesIdenticalRequests, !configuration.isAsked(about: request.target) { return nil }
        return authenticationRecord
    }

    /// Made when somebody asks, or has asked others before.
    private var authenticationRecord: AuthenticationRecord {
        // An answer is kept there.
        if shouldUseCredentialStorage { _ = credentialStore }
        let source = core.withLock { $0.credentialSource }
        return core.withLock { core in
            let work = core.authenticationWork
            let record = work.record ?? AuthenticationRecord(source)
            work.record = record
            return record
        }
    }

    /// The error of a response whose server has proved that it is another; nil if it is to be received. One out of a cache
    /// has the proof of an earlier request, if it has one.
    func proofFailure(of head: ResponseHead) -> URLError? {
        guard let record = core.withLock({ $0.authentication?.record }), head.cacheUse == nil, !head.asksForCredentials,
            let server = AuthenticatingServer(head.url),
            let failure = record.proofFailure(at: server, info: head.values(of: "Authentication-Info"))
        else { return nil }
        return URLError(.badServerResponse, url: head.url, failure.description, underlying: failure)
    }

    /// Whether a response makes the operation send its request again, with an answer to what is asked for; nil if it is
    /// the response.
    func retryForAuthentication(_ head: ResponseHead, _ number: Lifecycle.TryNumber) -> NextTry? {
        guard let next = answer(to: head, number) else { return nil }
        continueBehindRedirects()
        return next
    }

    private func answer(to head: ResponseHead, _ number: Lifecycle.TryNumber) -> NextTry? {
        if let next = retryForToken(head, number) { return next }
        // In a tunnel there is no proxy that could ask.
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
        return answer(record.evaluate(fields, of: server), head, or: .heldResponse, number)
    }

    /// The same for a tunnel that a proxy has refused.
    func retryForTunnel(_ error: any Error, _ number: Lifecycle.TryNumber) -> NextTry? {
        guard let error = error as? URLError, let fields = error.userInfo[URLError.proxyChallengesKey] as? [String],
            let url = error.userInfo[NSURLErrorFailingURLErrorKey] as? URL, let server = proxyServer(for: url)
        else { return nil }
        let verdict = authenticationRecord.evaluate(fields, of: server)
        guard let next = answer(verdict, nil, or: .failure(error), number) else { return nil }
        continueBehindRedirects()
        // Of a request that was redirected it may have been.
        core.withLock { $0.authentication?.isBodyUnread = $0.transfer?.redirection == nil }
        return next
    }

    /// Lets the next try begin where the redirects of this one have led.
    private func continueBehindRedirects() {
        let old = core.withLock { core in
            let old = core.authentication?.continuation
            guard let (request, followed) = core.transfer?.redirection, let first = core.request.url else {
                core.authentication?.continuation = nil
                return old
            }
            let work = core.authenticationWork
            work.continuation = AuthenticationWork.Continuation(
                request: request, place: RedirectContinuation(first: first, followed: followed),
                redirects: core.redirects, bearsToken: work.bearsToken(request))
            return old
        }
        // Its request may hold the last reference to a user's stream.
        withExtendedLifetime(old) {}
    }

    private func proxyServer(for url: URL) -> AuthenticatingServer? {
        Target(url).flatMap(connectionConfiguration.proxyServer)
    }

    // MARK: Answers

    private func answer(
        _ verdict: AuthenticationVerdict, _ head: ResponseHead?, or otherwise: AuthenticationWork.Settlement,
        _ number: Lifecycle.TryNumber
    ) -> NextTry? {
        switch verdict {
        case .none: return nil
        case .sendAgain: return .atOnce
        case .ask(let questions):
            if authenticationChallengeHandler != nil || delegate(interestedIn: .challenges) != nil {
                return .whenAnswered(for: .challenge) { [self] in ask(questions[...], head, or: otherwise, number) }
            }
            return answerByDefault(questions[...]) ? .atOnce : nil
        }
    }

    /// Answers with a known credential, if no credential has been refused.
    private func answerByDefault(_ questions: ArraySlice<AuthenticationQuestion>) -> Bool {
        guard questions.allSatisfy({ !$0.isRefused }),
            let question = questions.first(where: { $0.proposedCredential != nil }),
            let credential = question.proposedCredential
        else { return false }
        return authenticationRecord.answer(question, with: credential, keeps: false)
    }

    /// Asks the handler about the first of what may be answered.
    private func ask(
        _ questions: ArraySlice<AuthenticationQuestion>, _ head: ResponseHead?,
        or otherwise: AuthenticationWork.Settlement, _ number: Lifecycle.TryNumber
    ) {
        guard let question = questions.first else { return settle(otherwise, number) }
        // The user may keep the answer for ever: that must not keep the operation, or its handler. One that waits keeps
        // itself.
        let answer = AuthenticationAnswer { [weak self] disposition in
            self?.take(disposition, questions, question, head, or: otherwise, number)
        }
        let challenge = AuthenticationChallenge(
            protectionSpace: question.space, proposedCredential: question.proposedCredential,
            previousFailureCount: question.previousFailureCount, failureResponse: head?.urlResponse)
        (completionQueue ?? OperationQueues.processing).async { [self] in
            // It may have been cancelled meanwhile; its handlers are released then.
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
        _ question: AuthenticationQuestion, _ head: ResponseHead?, or otherwise: AuthenticationWork.Settlement,
        _ number: Lifecycle.TryNumber
    ) {
        switch disposition {
        case .useCredential(let credential):
            accept(authenticationRecord.answer(question, with: credential, keeps: true), number)
        case .useToken(let token): accept(authenticationRecord.answer(question, withToken: token), number)
        case .performDefaultHandling:
            if answerByDefault(questions) { handle(.retryDue(number)) } else { settle(otherwise, number) }
        case .cancel:
            let error = URLError(
                .userCancelledAuthentication, url: request.url, "The challenge was answered with a cancellation.")
            settle(.failure(error), number)
        case .rejectProtectionSpace:
            authenticationRecord.reject(question)
            ask(questions.dropFirst(), head, or: otherwise, number)
        }
    }

    private func accept(_ canBeSent: Bool, _ number: Lifecycle.TryNumber) {
        guard !canBeSent else { return handle(.retryDue(number)) }
        let error = URLError(
            .userAuthenticationRequired, url: request.url,
            "The answer to the challenge cannot be sent: it does not suit the method, or has characters that the method forbids."
        )
        settle(.failure(error), number)
    }

    /// Lets the next try end with an outcome in place of sending the request.
    private func settle(_ settlement: AuthenticationWork.Settlement, _ number: Lifecycle.TryNumber) {
        core.withLock { $0.authenticationWork.settle(settlement, after: number) }
        handle(.retryDue(number))
    }

    /// Ends a try whose outcome was settled before it. True if it did.
    func endsBySettlement(_ number: Lifecycle.TryNumber) -> Bool {
        let (settlement, transfer, carrier) = core.withLock {
            ($0.authentication?.takeSettlement(for: number), $0.transfer, $0.carrier)
        }
        switch settlement {
        case .failure(let error): conclude(number, settledBy: error)
        case .heldResponse:
            guard let transfer, let carrier else { return false }
            // A stop finds the transfer, which may have to wait for a user's stream.
            let isUnderWay = core.withLock { $0.workSlot.connect(number, WorkHandle(request: $0.request.urlRequest) {}) }
            guard isUnderWay else {
                transferDidStop(number)
                return true
            }
            carrier.perform { [self] in transfer.deliverHeldResponse(number, of: self) }
        case nil: return false
        }
        return true
    }
}
