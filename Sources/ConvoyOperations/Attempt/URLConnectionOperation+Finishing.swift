import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that decide what follows an attempt, store its results, and finish the operation.
extension URLConnectionOperation {
    /// Decides what follows an attempt, and performs the decision. Only the first outcome of an attempt counts. May be
    /// called on any thread.
    func decide(_ outcome: AttemptOutcome, after attempt: Attempt) {
        switch outcome {
        case .stopped:
            guard let phase = claimEnd(of: attempt) else { return }
            guard isRunning(attempt), !phase.isPreparing else { return handle(.workStopped(attempt.number)) }
            // The operation did not request the stop, so nothing would restart the work.
            let error = URLError(
                .networkConnectionLost, url: request.url, "The connection was cancelled unexpectedly.")
            performNextStep(after: .failed(error, nil), attempt)
        case .received(let head, let isFinal):
            let decision = isFinal || !mayRepeat(after: head) ? nil : nextStep(after: outcome, attempt)
            guard let decision, !decision.step.isFinish else { return attempt.finishBody(head, of: self) }
            if claimEnd(of: attempt) != nil { perform(decision, after: outcome, attempt) }
        case .unusable, .failed, .refused, .settled, .succeeded:
            // The error thrown by user code is reported: retrying would throw it again.
            if case .failed(let error, _) = outcome,
                let failure = (error as? URLError)?.userInfo[NSUnderlyingErrorKey] as? BodyProducerError
            {
                return decide(.settled(failure.cause), after: attempt)
            }
            if claimEnd(of: attempt) != nil { performNextStep(after: outcome, attempt) }
        }
    }

    private func performNextStep(after outcome: AttemptOutcome, _ attempt: Attempt) {
        perform(nextStep(after: outcome, attempt), after: outcome, attempt)
    }

    /// Returns whether another attempt may follow a response. This check is the only cost for most operations.
    private func mayRepeat(after head: ResponseHead?) -> Bool {
        has(.authentication) || has(.retryPolicy) || head?.asksForCredentials == true
    }

    /// Ends the phases of an attempt. Returns the last one, to be released outside the lock; nil if the attempt had
    /// already ended, so that its outcome does not count.
    func claimEnd(of attempt: Attempt) -> AttemptPhase? { core.withLock { _ in attempt.phase.finish() } }

    // MARK: Storing an outcome

    /// Stores the outcome of an ended attempt as the outcome of the operation.
    func store(_ outcome: AttemptOutcome, of attempt: Attempt) {
        switch outcome {
        // A response is processed before it is stored, and the other outcomes have no result.
        case .stopped, .unusable, .received: break
        case .failed(let error, _): store(error: explained(error), of: attempt)
        case .refused(let error, _, let data, let object):
            store(data, object, error: explained(error), of: attempt)
        case .settled(let error): store(error: error, of: attempt)
        case .succeeded(let object, let data): store(data, object, of: attempt)
        }
    }

    private func store(_ data: Data? = nil, _ object: Any? = nil, error: (any Error)? = nil, of attempt: Attempt) {
        let object = object.map { OperationCore.ResponseObject.made(ObjectBox($0)) } ?? .none
        let error = error.map { error in request.url.flatMap { (error as? any URLNaming)?.naming($0) } ?? error }
        core.withLock { $0.result = OperationCore.StoredResult(data: data, object: object, error: error) }
        finish(attempt)
    }

    // MARK: The response

    /// Sets the head of the current response, and the redirects that led to it, unless they are known.
    func note(_ head: ResponseHead, redirects: [RedirectEvent]? = nil) {
        core.withLock { core in
            core.head = head
            if let redirects { core.redirects = redirects }
        }
    }

    /// Returns whether the body of a response is written to the output stream; otherwise the body is kept as
    /// `responseData`.
    func belongsIntoOutput(_ head: ResponseHead) -> Bool {
        if let sink = extra(\.place)?.sink, let isAccepted = sink.accepts(head) { return isAccepted }
        guard serializesResponse else { return true }
        return settings.values.serializer.acceptableStatusCodes?.contains(head.statusCode) ?? true
    }

    var currentHead: ResponseHead? { core.withLock { $0.head } }

    /// The way in which the result of a response is produced.
    private enum ResponseDisposition {
        /// The attempt has already ended.
        case none
        /// The results are stored.
        case stored
        case serialize(isHead: Bool)
        /// The operation is ending, and does not wait for a serializer.
        case stopped
    }

    /// Processes the response of an attempt, whose body is complete and stored. May be called on any thread.
    func process(_ head: ResponseHead?, data: Data?, of attempt: Attempt) {
        let parses = serializesResponse
        let isPlain = serializesPlainly
        let (disposition, commits, phase) = core.withLock { core -> (ResponseDisposition, Bool, AttemptPhase?) in
            guard let phase = attempt.phase.finish() else { return (.none, false, nil) }
            core.result.data = data
            let isLeftToTask = isPlain && core.isLeftToTask(head, data)
            if isLeftToTask { core.result.object = .undecoded }
            // A body in memory (`data`) was never written to the sink, so the sink has nothing to commit.
            let commits = data == nil && core.place?.sink.isProvisional == true
            guard parses, !isLeftToTask else { return (.stored, commits, phase) }
            let isHead = data?.isEmpty != false && core.request.method == "HEAD"
            // In the common case, skip the thread hop and the Foundation response.
            if isPlain, let head, core.common.prepared.deliversBody(ofStatus: head.statusCode) {
                core.result.object = isHead ? .none : .body
                return (.stored, commits, phase)
            }
            // An earlier stop had nothing to cancel; a later stop observes the `processing` phase.
            if lifecycle.value.isEnding { return (.stopped, false, phase) }
            attempt.phase = .processing
            return (.serialize(isHead: isHead), commits, phase)
        }
        withExtendedLifetime(phase) {}
        switch disposition {
        case .none: return
        case .stored: finish(attempt, committing: commits)
        case .serialize(let isHead):
            CompletionOutbox.post(to: OperationQueues.processing) { [self] in
                serialize(attempt, data: isHead ? nil : data, head: head, commits: commits)
            }
        case .stopped: handle(.workStopped(attempt.number))
        }
    }

    /// Validates and parses the response. Called on the processing queue, because the serializer or the operation's
    /// subclass may be user code.
    private func serialize(_ attempt: Attempt, data: Data?, head: ResponseHead?, commits: Bool) {
        let object: ObjectBox
        var failure: (any Error)?
        do {
            object = ObjectBox(try makeResponseObject(for: head?.urlResponse, data: data))
        } catch {
            object = ObjectBox(error.serializedResponseObject)
            failure = explained(error)
        }
        let result = (object: object, failure: failure)
        let isCurrent = core.withLock { core in
            guard attempt.phase.didProcess() else { return false }
            core.result.object = .made(result.object)
            core.result.error = result.failure
            return true
        }
        if isCurrent { finish(attempt, committing: commits && failure == nil) }
    }

    // MARK: Finishing

    /// Finishes the work of an attempt, whose results are stored. All outcomes pass through this method.
    ///
    /// - Parameter commits: Whether the sink first moves the bytes of an accepted response to their destination.
    private func finish(_ attempt: Attempt, committing commits: Bool = false) {
        handle(commits ? .workCanCommit(attempt.number) : .workCompleted(attempt.number))
    }

    /// Commits the sink. The result of the commit becomes the operation's. If the operation has finished in the
    /// meantime, it has no attempt, and nothing is committed.
    func commit(_ number: Lifecycle.AttemptNumber) {
        let call = BlockingCall()
        let attempt = core.withLock { core -> Attempt? in
            // A worker commits its own results.
            guard core.worker == nil, let attempt = core.attempt(number) else { return nil }
            // An attempt that is discarded afterwards can abandon the call.
            attempt.body.sink?.willCommit(as: call)
            return attempt
        }
        attempt?.body.sink?.commit(as: call) { [self] error in
            if let error { core.withLock { $0.result.error = error } }
            handle(.workCompleted(number))
        }
    }

    /// The maximum time that a cancelled or expired operation waits for a running commit, in seconds.
    private static let commitPatience: TimeInterval = 1

    /// Waits for a running commit, for a limited time.
    func awaitCommit(_ number: Lifecycle.AttemptNumber) {
        let clock = retryClock
        let timer = clock.schedule(at: Nanoseconds.deadline(Self.commitPatience, after: clock.now)) { [weak self] in
            self?.handle(.commitTakesTooLong(number))
        }
        // This timer replaces that of `totalTimeout`, which no longer matters.
        setExpiryTimer(timer)
    }

    /// Finishes the operation: the last action of its lifecycle.
    func finish() {
        // Submit the handlers before posting the end, so that they run before the handlers of operations that can
        // finish because of this one.
        deliver()
        if mustPostElsewhere { BlockingWorkers.shared.perform { self.postEnd() } } else { postEnd() }
    }

    private func postEnd() {
        executionDidFinish()
        didDeliver(.endPosted)
    }
}

extension OperationCore {
    /// Returns whether the awaiting task decodes the response, which saves a thread hop and an `HTTPURLResponse`.
    fileprivate func isLeftToTask(_ head: ResponseHead?, _ data: Data?) -> Bool {
        let settings = common.prepared
        guard settings.hasAwaitedValue, let head, let data, let awaited = settings.awaitedValue else { return false }
        return awaited.plainlyAccepts(
            statusCode: head.statusCode, contentType: head["Content-Type"], count: data.count)
    }
}
