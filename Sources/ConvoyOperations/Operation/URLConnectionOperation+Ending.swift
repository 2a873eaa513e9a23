import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The outcome of an attempt.
enum AttemptOutcome {
    /// The attempt was stopped, and the received bytes are kept.
    case stopped
    /// The received bytes are unusable: the complete body must be requested again.
    case unusable
    /// A response has arrived, whose head is nil if the transport does not provide it.
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
}

/// Methods that end attempts and the operation.
extension URLConnectionOperation {
    /// Ends an attempt; only the first call has an effect. If another attempt follows, it begins immediately, after a
    /// delay or after an answer. Otherwise the outcome becomes the operation's. May be called on any thread.
    func end(_ attempt: Attempt, with outcome: AttemptOutcome) {
        switch outcome {
        case .stopped where isRunning(attempt) && !core.withLock({ _ in attempt.phase.isPreparing }):
            // The operation did not request the stop, so nothing would restart the work.
            let error = URLError(
                .networkConnectionLost, url: request.url, "The connection was cancelled unexpectedly.")
            end(attempt, with: .failed(error, nil))
        case .stopped:
            if didEnd(attempt) { handle(.workStopped(attempt.number)) }
        case .unusable:
            if didEnd(attempt) { repeatAtOnce(after: attempt) }
        case .received(let head, let isFinal):
            guard !isFinal, let next = attemptInstead(of: head, attempt) else {
                // Close the sink only now that no retry will continue it.
                return attempt.close(head, of: self)
            }
            if didEnd(attempt) { proceed(to: next, after: attempt) }
        case .failed(let error, let head):
            // Report the error thrown by user code; retrying would throw it again.
            if let failure = (error as? URLError)?.userInfo[NSUnderlyingErrorKey] as? BodyProducerError {
                return end(attempt, with: .settled(failure.cause))
            }
            guard didEnd(attempt) else { return }
            let next =
                retryForTunnel(error, attempt) ?? retryForNetwork(error, attempt) ?? retryForProof(error)
                ?? retry(after: error, head: head, attempt)
            if let next { return proceed(to: next, after: attempt) }
            complete(attempt, error: explained(error))
        case .refused(let error, let head, let data, let object):
            guard didEnd(attempt) else { return }
            if let next = retry(after: nil, head: head, attempt) { return proceed(to: next, after: attempt) }
            complete(attempt, data: data, object: object, error: explained(error))
        case .settled(let error):
            if didEnd(attempt) { complete(attempt, error: error) }
        case .succeeded(let object, let data):
            if didEnd(attempt) { complete(attempt, data: data, object: object) }
        }
    }

    /// Records that an attempt has ended. Returns false if the attempt had already ended.
    func didEnd(_ attempt: Attempt) -> Bool { core.withLock { _ in attempt.phase.end() } != nil }

    /// Stores the outcome of an attempt as the operation's.
    private func complete(
        _ attempt: Attempt, data: Data? = nil, object: Any? = nil, error: (any Error)? = nil
    ) {
        let object = object.map { OperationCore.ResponseObject.made(ObjectBox($0)) } ?? .none
        let error = error.map { error in request.url.flatMap { (error as? any URLNaming)?.naming($0) } ?? error }
        core.withLock { core in (core.data, core.object, core.error) = (data, object, error) }
        handle(.workCompleted(attempt.number))
    }

    /// Returns the next attempt to make instead of accepting a response; nil if the response is the result.
    private func attemptInstead(of head: ResponseHead?, _ attempt: Attempt) -> NextAttempt? {
        // Most operations need neither authentication nor a retry policy, and only pay for this check.
        guard
            flags.contains(.authentication) || flags.contains(.retryPolicy) || head?.asksForCredentials == true
        else { return nil }
        return head.flatMap { retryForAuthentication($0, attempt) } ?? retry(after: nil, head: head, attempt)
    }

    // MARK: The response

    /// Sets the head of the current response.
    func note(_ head: ResponseHead) { core.withLock { $0.head = head } }

    /// Returns whether the body of a response is written to the output stream; otherwise the body is kept as
    /// `responseData`.
    func belongsIntoOutput(_ head: ResponseHead) -> Bool {
        if let sink = core.withLock({ $0.place?.sink }), let isAccepted = sink.accepts(head) { return isAccepted }
        guard serializesResponse else { return true }
        return core.withLock { $0.common.values.serializer.acceptableStatusCodes }?.contains(head.statusCode) ?? true
    }

    var currentHead: ResponseHead? { core.withLock { $0.head } }

    /// The way in which the result of a response is produced.
    private enum ResponseDisposition {
        /// The attempt has already ended.
        case none
        /// The results are stored.
        case complete
        case process(isHead: Bool)
        /// The operation is ending, and does not wait for a serializer.
        case stopped
    }

    /// Ends an attempt whose response is complete and stored. May be called on any thread.
    func finish(_ attempt: Attempt, with head: ResponseHead?, data: Data?) {
        let parses = serializesResponse
        let isPlain = serializesPlainly
        let (conclusion, commits, phase) = core.withLock { core -> (ResponseDisposition, Bool, AttemptPhase?) in
            guard let phase = attempt.phase.end() else { return (.none, false, nil) }
            core.data = data
            let isLeftToTask = isPlain && core.isLeftToTask(head, data)
            if isLeftToTask { core.object = .undecoded }
            // A body in memory (`data`) was never written to the sink, so the sink has nothing to commit.
            let commits = data == nil && core.place?.sink.isProvisional == true
            guard parses, !isLeftToTask else { return (.complete, commits, phase) }
            let isHead = data?.isEmpty != false && core.request.method == "HEAD"
            // In the common case, skip the thread hop and the Foundation response.
            if isPlain, let head, core.common.prepared.deliversBody(ofStatus: head.statusCode) {
                core.object = isHead ? .none : .body
                return (.complete, commits, phase)
            }
            // A stop requested earlier found nothing to cancel; a later stop finds the `processing` phase.
            if lifecycle.value.isEnding { return (.stopped, false, phase) }
            attempt.phase = .processing
            return (.process(isHead: isHead), commits, phase)
        }
        withExtendedLifetime(phase) {}
        switch conclusion {
        case .none: return
        case .complete: complete(attempt, commits: commits)
        case .process(let isHead):
            CompletionOutbox.post(to: OperationQueues.processing) { [self] in
                process(attempt, data: isHead ? nil : data, head: head, commits: commits)
            }
        case .stopped: handle(.workStopped(attempt.number))
        }
    }

    /// Validates and parses the response. Called on the processing queue, because the serializer or the operation's
    /// subclass may be user code.
    private func process(_ attempt: Attempt, data: Data?, head: ResponseHead?, commits: Bool) {
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
            core.object = .made(result.object)
            if let failure = result.failure { core.error = failure }
            return true
        }
        guard isCurrent else { return }
        if failure == nil { complete(attempt, commits: commits) } else { handle(.workCompleted(attempt.number)) }
    }

    // MARK: Committing

    /// Completes an attempt whose response was accepted, after a provisional sink has moved its bytes to their
    /// destination.
    private func complete(_ attempt: Attempt, commits: Bool) {
        guard commits else { return handle(.workCompleted(attempt.number)) }
        core.withLock { $0.commitsOutput = true }
        handle(.workCanCommit(attempt.number))
    }

    /// Commits the sink. The result of the commit becomes the operation's. If the operation has finished in the
    /// meantime, it has no attempt, and nothing is committed.
    func commit(_ number: Lifecycle.AttemptNumber) {
        let call = BlockingCall()
        let attempt = core.withLock { core -> Attempt? in
            // If `commitsOutput` is false, a worker commits its own results.
            guard core.commitsOutput, let attempt = core.attempt(number) else { return nil }
            attempt.willCommit(as: call)
            return attempt
        }
        attempt?.commit(as: call) { [self] error in
            if let error { core.withLock { $0.error = error } }
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
        let unused = core.withLock { core in
            defer { if !core.isFinished { core.expiryTimer = timer } }
            return core.isFinished ? timer : core.expiryTimer
        }
        unused?.cancel()
    }

    // MARK: The end of the operation

    func finish() {
        // Submit the handlers before posting the end, so that they run before the handlers of operations that can
        // finish because of this one.
        deliver()
        if mustPostElsewhere { BlockingWorkers.shared.perform { self.postEnd() } } else { postEnd() }
    }

    private func postEnd() {
        executionDidFinish()
        deliveryDidPostEnd()
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
