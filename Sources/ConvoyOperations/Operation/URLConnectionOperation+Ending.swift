import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The ends of an operation's tries, and its own.
extension URLConnectionOperation {
    /// The connection of a try was cancelled and has stopped; what has arrived is in the sink.
    func transferDidStop(_ number: Lifecycle.TryNumber) {
        let life = lifecycle.value
        if life.isUnderWay(number), life.work == .running {
            // The operation did not ask for this, so nothing would begin the work again.
            let error = URLError(
                .networkConnectionLost, url: request.url, "The connection was cancelled, but not by the operation.")
            return conclude(number, data: nil, head: nil, error: error)
        }
        guard core.withLock({ $0.workSlot.end(number) }) else { return }
        handle(.workStopped(number))
    }

    /// What has arrived is of no use: the work must be done again, unless the operation was asked to stop.
    func transferMustRepeat(_ number: Lifecycle.TryNumber) {
        guard core.withLock({ $0.workSlot.end(number) }) else { return }
        repeatAtOnce(after: number)
    }

    /// Sets the head of the current response.
    func note(_ head: ResponseHead) { core.withLock { $0.head = head } }

    /// Whether the body of a response goes into the output stream; otherwise it is kept as `responseData`.
    func belongsIntoOutput(_ head: ResponseHead) -> Bool {
        if let accepts = core.withLock({ $0.rareHandlers?.acceptsBody }) { return accepts(head) }
        guard serializesResponse else { return true }
        return core.withLock { $0.common.values.serializer.acceptableStatusCodes }?.contains(head.statusCode) ?? true
    }

    var currentHead: ResponseHead? { core.withLock { $0.head } }

    /// Whether the request is retried after this response. If so, the try is concluded here.
    func retriesInstead(of head: ResponseHead?, _ number: Lifecycle.TryNumber) -> Bool {
        // Most operations have neither, and pay for no more than this look.
        let mayRetry = core.withLock { $0.authentication != nil || $0.common.values.retryPolicy != nil }
        guard mayRetry || head?.asksForCredentials == true else { return false }
        let answering = head.flatMap { retryForAuthentication($0, number) }
        guard let next = answering ?? retry(after: nil, head: head) else { return false }
        if core.withLock({ $0.workSlot.conclude(number) }) { proceed(to: next, after: number) }
        return true
    }

    /// What to do at the end of a try.
    private enum Conclusion {
        /// The try is over already.
        case none
        /// The results are stored.
        case complete
        case process(isHead: Bool)
    }

    /// Whether decoding the response is left to the task that awaits the operation, which saves a thread hop and making
    /// an `HTTPURLResponse`.
    private func isLeftToTask(_ head: ResponseHead?, _ data: Data?) -> Bool {
        guard let head, let data, let awaited = core.withLock({ $0.common.values.holder.awaitedValue }) else { return false }
        return awaited.plainlyAccepts(
            statusCode: head.statusCode, contentType: head["Content-Type"], count: data.count)
    }

    /// Ends a try with the result of its transfer. Any thread.
    func conclude(_ number: Lifecycle.TryNumber, data: Data?, head: ResponseHead?, error: (any Error)?) {
        if let error { return conclude(number, head: head, error: error) }
        let parses = serializesResponse
        let isPlain = serializesPlainly
        let isLeftToTask = isPlain && isLeftToTask(head, data)
        let (conclusion, output) = core.withLock { core -> (Conclusion, OutputStreamBox?) in
            guard core.workSlot.conclude(number) else { return (.none, nil) }
            core.data = data
            core.isUndecoded = isLeftToTask
            // If the body was set aside in memory, it is not in the stream.
            let output = data == nil ? core.outputStream : nil
            guard parses, !isLeftToTask else { return (.complete, output) }
            let isHead = data?.isEmpty != false && core.request.method == "HEAD"
            let facts = core.common.values.serializer
            // The common case costs no hop and no Foundation response.
            guard isPlain, let head, let plain = facts.plain, plain.acceptsWithoutHeaders(statusCode: head.statusCode)
            else {
                _ = core.workSlot.process(number)
                return (.process(isHead: isHead), output)
            }
            core.object = ObjectBox(object: isHead ? nil : data)
            return (.complete, output)
        }
        switch conclusion {
        case .none: return
        case .complete: complete(number, output)
        case .process(let isHead):
            // A stop that has come since the connection ended has found nothing to give up.
            if lifecycle.value.isEnding, case .ended = core.withLock({ $0.workSlot.stop(number, isFinal: true) }) {
                return handle(.workStopped(number))
            }
            CompletionOutbox.post(to: OperationQueues.processing) { [self] in
                process(number, data: isHead ? nil : data, head: head, output: output)
            }
        }
    }

    /// Completes a try whose response is accepted, after a committing stream has put its bytes in their final place.
    private func complete(_ number: Lifecycle.TryNumber, _ output: OutputStreamBox?) {
        guard let output, output.stream is any CommittingOutputStream else { return handle(.workCompleted(number)) }
        core.withLock { $0.commitsOutput = true }
        handle(.workCanCommit(number))
    }

    /// Lets the output stream commit. What becomes of that becomes of the operation. One that has ended meanwhile has no
    /// transfer any more.
    func commit(_ number: Lifecycle.TryNumber) {
        let call = BlockingCall()
        let transfer = core.withLock { core -> OperationTransfer? in
            // What does the work of an operation that is not one transfer commits itself.
            guard core.commitsOutput, let transfer = core.transfer else { return nil }
            transfer.willCommit(as: call)
            return transfer
        }
        transfer?.commit(as: call) { [self] error in
            if let error { core.withLock { $0.error = error } }
            handle(.workCompleted(number))
        }
    }

    /// How many seconds a cancelled operation, or one whose time is over, waits for a commit that has begun.
    private static let commitPatience: TimeInterval = 1

    /// Waits for a commit that has begun, but not for ever.
    func awaitCommit(_ number: Lifecycle.TryNumber) {
        let clock = retryClock
        let timer = clock.schedule(at: Nanoseconds.deadline(Self.commitPatience, after: clock.now)) { [weak self] in
            self?.handle(.commitTakesTooLong(number))
        }
        // It takes the place of the time limit, which has no meaning any more.
        let unused = core.withLock { core in
            defer { if !core.isFinished { core.expiryTimer = timer } }
            return core.isFinished ? timer : core.expiryTimer
        }
        unused?.cancel()
    }

    private func conclude(_ number: Lifecycle.TryNumber, head: ResponseHead?, error: any Error) {
        // What the user's code has thrown, it gets; it would throw it again.
        if let failure = (error as? URLError)?.userInfo[NSUnderlyingErrorKey] as? BodySupplyFailure {
            return conclude(number, settledBy: failure.cause)
        }
        guard core.withLock({ $0.workSlot.conclude(number) }) else { return }
        let next = retryForTunnel(error, number) ?? retryForNetwork(error, number) ?? retry(after: error, head: head)
        if let next { return proceed(to: next, after: number) }
        let explained = explained(error)
        core.withLock { core in
            core.data = nil
            core.error = explained
        }
        handle(.workCompleted(number))
    }

    /// Ends a try whose error is final.
    func conclude(_ number: Lifecycle.TryNumber, settledBy error: any Error) {
        guard core.withLock({ $0.workSlot.conclude(number) }) else { return }
        core.withLock { core in
            core.data = nil
            core.error = error
        }
        handle(.workCompleted(number))
    }

    /// Validates and parses the response. On the processing queue: the serializer, or the subclass, may be a user's.
    private func process(_ number: Lifecycle.TryNumber, data: Data?, head: ResponseHead?, output: OutputStreamBox?) {
        let object: ObjectBox
        var failure: (any Error)?
        do {
            object = ObjectBox(object: try makeResponseObject(for: head?.urlResponse, data: data))
        } catch {
            object = ObjectBox(object: error.serializedResponseObject)
            failure = explained(error)
        }
        let result = (object: object, failure: failure)
        let isCurrent = core.withLock { core in
            guard core.workSlot.didProcess(number) else { return false }
            core.object = result.object
            if let failure = result.failure { core.error = failure }
            return true
        }
        guard isCurrent else { return }
        if failure == nil { complete(number, output) } else { handle(.workCompleted(number)) }
    }

    func finish() {
        // In this order: handlers of operations that can finish because of this one must come after its own.
        deliver()
        if mustPostElsewhere { BlockingWorkers.shared.perform { self.postEnd() } } else { postEnd() }
    }

    private func postEnd() {
        executionDidFinish()
        deliveryDidPostEnd()
    }
}
