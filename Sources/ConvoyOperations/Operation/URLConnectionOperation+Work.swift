import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// What an operation does with the actions that its lifecycle asks for.
extension URLConnectionOperation {
    /// Lets an event happen to the operation, from any thread.
    func handle(_ event: Lifecycle.Event) {
        guard let transition = lifecycle.handle(event) else { return }
        proceed(after: transition)
    }

    /// Does what a change of the lifecycle asks for. Until it gets to it, other threads may have made any number of
    /// changes and carried out their actions; so each action is right however late it comes, and the reason stands
    /// with it.
    func carryOut(_ transition: AtomicLifecycle.Transition) {
        let (old, new) = (transition.old, transition.new)
        // By their numbers, changes that come late are put in order.
        if onlookers.contains(.observer) { observationCenter.note(transition, of: self) }
        // Foundation looks at `isExecuting` itself, and does nothing where it is false by now.
        if new.state == .executing, old.state != .executing { executionDidBegin() }
        // Names the wait that it ends.
        if old.isBackingOff, !new.isBackingOff { endRetryWait(after: old.tryNumber) }
        switch transition.action {
        case .nothing: break
        // The operation neither finishes nor begins another try before this one has ended, and it cannot end before it
        // has begun here. A stop may have come first; the slot has kept it.
        case .begin(let number): beginWork(number)
        // Finds its own try or none: one that has not begun will find the stop, one that has ended needs none.
        case .stop(let number): stopWork(number)
        // The slot that the queue gave for this one start. Until it has come back, the queue gives the operation no
        // other, whatever becomes of it: the slot cannot be mistaken for that of a later start. Having taken it back,
        // the queue looks for itself whether the operation is ready again. One that has finished has left the queue.
        case .slotFreed: slotDidFree()
        case .stopAndFreeSlot(let number):
            stopWork(number)
            slotDidFree()
        case .awaitRetry(let number):
            slotDidFree()
            // What is due after a pause, a cancel or another try finds that out by the number.
            awaitRetry(after: number)
        // Whoever is told looks for itself, and sees what is true then.
        case .readinessChanged: readinessDidChange()
        case .restart:
            // A Foundation queue starts an operation once; after that the operation is on its own. If it is no longer
            // ready, or was started by another, `start` changes nothing.
            if new.wasStarted, !isScheduled { start() } else { readinessDidChange() }
        // Nothing follows it in the lifecycle, and it comes once.
        case .finish: finish()
        }
    }

    // MARK: Beginning

    private func beginWork(_ number: Lifecycle.TryNumber) {
        // `prepare` is taken out, so that it runs once however often the operation is paused.
        let (isFirst, preset, policy, prepare) = core.withLock { core in
            core.workSlot.begin(number)
            defer { core.hasBegun = true }
            return (
                !core.hasBegun, core.presetFailure, core.common.values.dependencyFailurePolicy,
                core.rareHandlers?.prepare.take()
            )
        }
        if isFirst {
            beginResourceTimeout()
            noteFirstTry()
            postDidStart()
            if policy == .cancel, let cause = failureOfDependency() { cancel(because: cause) }
        }
        guard prepare != nil || preset != nil else { return connect(number) }
        if core.withLock({ $0.workSlot.endIfStopped(number) }) {
            if let prepare { self.prepare = prepare }
            return handle(.workStopped(number))
        }
        if let preset { return conclude(number, data: nil, head: nil, error: preset) }
        guard let prepare else { return }
        BlockingWorkers.shared.perform { [self] in
            do {
                var request = self.request
                try prepare(&request)
                let prepared = request
                core.withLock { $0.request = .foundation(prepared) }
                connect(number)
            } catch {
                conclude(number, data: nil, head: nil, error: error)
            }
        }
    }

    private func failureOfDependency() -> (any Error)? {
        for dependency in dependencies {
            if let operation = dependency as? URLConnectionOperation, let error = operation.error { return error }
            if dependency.isCancelled {
                return URLError(.cancelled, url: nil, "A dependency was cancelled.")
            }
        }
        return nil
    }

    /// What a try needs, taken out under one lock.
    private struct TryWork {
        let transfer: OperationTransfer
        let carrier: any Transport
        let request: TransferRequest
        let configuration: ConnectionConfiguration
        let memoryLimit: Int
    }

    /// Gives a try its connection, unless the try was stopped in its preparation.
    private func connect(_ number: Lifecycle.TryNumber) {
        let parses = serializesResponse
        let work = core.withLock { core -> TryWork? in
            // Before anything is opened: a stopped try leaves the output as it was.
            if core.workSlot.endIfStopped(number) { return nil }
            let carrier = core.openCarrier()
            return TryWork(
                transfer: core.openTransfer(over: carrier), carrier: carrier, request: core.requestWithTimeout,
                configuration: core.common.values.configuration, memoryLimit: core.memoryLimit(whenParsed: parses))
        }
        guard let work else { return handle(.workStopped(number)) }
        if work.transfer.beginsAtOnce {
            let request = work.transfer.begin(number, of: self, sending: work.request, memoryLimit: work.memoryLimit)
            return connect(number, work, with: request)
        }
        work.transfer.prepareForTry(number, of: self, sending: work.request, memoryLimit: work.memoryLimit) {
            [self] result in
            switch result {
            case .success(let request): connect(number, work, with: request)
            case .failure(let error): conclude(number, data: nil, head: nil, error: error)
            }
        }
    }

    private func connect(_ number: Lifecycle.TryNumber, _ work: TryWork, with request: TransferRequest) {
        var configuration = work.configuration
        // A body that goes to a file is expected to be a large one.
        if !work.transfer.isInMemory { configuration.receiveBufferSize = 512 << 10 }
        if let slow = request.bodyStream as? any ThrottledBodyStream {
            configuration.uploadThrottle = .init(packetSize: slow.packetSize, delay: slow.delay)
        }
        let connection = work.carrier.connection(for: request, configuration: configuration, delegate: work.transfer)
        work.transfer.expectCallbacks(of: connection)
        // A stop that comes between these two finds the connection, which may be cancelled before it is started.
        if core.withLock({ $0.workSlot.connect(number, connection) }) { return connection.start() }
        work.transfer.abandonTry()
        transferDidStop(number)
    }

    // MARK: Stopping

    private func stopWork(_ number: Lifecycle.TryNumber) {
        core.withLock { $0.workSlot.stop(number) }?.cancel()
    }

    // MARK: Ending

    /// The connection of a try was cancelled and has stopped; what has arrived is in the sink.
    func transferDidStop(_ number: Lifecycle.TryNumber) {
        let life = lifecycle.value
        if life.isUnderWay(number), life.work == .running {
            // Nobody here has asked for it, and nobody will begin again.
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
        handle(.workMustRepeat(number))
    }

    /// The head of the response that counts.
    func note(_ head: ResponseHead) { core.withLock { $0.head = head } }

    /// Whether the body of a response belongs into the output stream; otherwise it is kept as `responseData`.
    func belongsIntoOutput(_ head: ResponseHead) -> Bool {
        guard serializesResponse else { return true }
        return core.withLock { $0.common.values.serializer.acceptableStatusCodes }?.contains(head.statusCode) ?? true
    }

    var currentHead: ResponseHead? { core.withLock { $0.head } }

    /// Whether a response is one after which the request is tried again. Then nothing else concludes the try.
    func retriesInstead(of head: ResponseHead?, _ number: Lifecycle.TryNumber) -> Bool {
        guard let next = retry(after: nil, head: head) else { return false }
        if core.withLock({ $0.workSlot.conclude(number) }) { handle(next.event(after: number)) }
        return true
    }

    /// What follows on the end of a try.
    private enum Conclusion {
        /// The try is over already.
        case none
        /// The results are stored.
        case complete
        case process(any URLResponseSerialization, isHead: Bool)
    }

    /// Whether a response is left to be decoded by the task that awaits the operation: a hop less, and no Foundation
    /// response.
    private func isLeftToTask(_ head: ResponseHead?, _ data: Data?) -> Bool {
        guard let head, let data, let awaited = core.withLock({ $0.common.values.awaitedValue }) else { return false }
        return awaited.plainlyAccepts(
            statusCode: head.statusCode, contentType: head["Content-Type"], count: data.count)
    }

    /// The transfer of a try has brought what it can. Any thread.
    func conclude(_ number: Lifecycle.TryNumber, data: Data?, head: ResponseHead?, error: (any Error)?) {
        if let error { return conclude(number, head: head, error: error) }
        let parses = serializesResponse
        let isLeftToTask = isLeftToTask(head, data)
        let (conclusion, output) = core.withLock { core -> (Conclusion, StreamBox?) in
            guard core.workSlot.conclude(number) else { return (.none, nil) }
            core.data = data
            core.isUndecoded = isLeftToTask
            // A body that was set aside is not what the stream has.
            let output = data == nil ? core.outputStream : nil
            guard parses, !isLeftToTask else { return (.complete, output) }
            let isHead = data?.isEmpty != false && core.request.method == "HEAD"
            let facts = core.common.values.serializer
            // The common case costs no hop and no Foundation response.
            guard let head, let plain = facts.plain, plain.acceptsWithoutHeaders(statusCode: head.statusCode) else {
                return (.process(facts.serializer, isHead: isHead), output)
            }
            core.object = ObjectBox(object: isHead ? nil : data)
            return (.complete, output)
        }
        switch conclusion {
        case .none: return
        case .complete: complete(number, output)
        case .process(let serializer, let isHead):
            CompletionOutbox.post(to: OperationQueues.processing) { [self] in
                process(number, data: isHead ? nil : data, head: head, with: serializer, output: output)
            }
        }
    }

    /// The response is accepted. A stream that holds its bytes back puts them in their place, and only then is the try
    /// complete.
    private func complete(_ number: Lifecycle.TryNumber, _ output: StreamBox?) {
        guard let output, output.stream is any CommittingOutputStream else { return handle(.workCompleted(number)) }
        BlockingWorkers.shared.perform { [self] in
            // Whoever has cancelled the operation does not want the bytes any more.
            if !lifecycle.value.isEnding {
                do {
                    try (output.stream as? any CommittingOutputStream)?.commit()
                } catch {
                    core.withLock { $0.error = error }
                }
            }
            handle(.workCompleted(number))
        }
    }

    private func conclude(_ number: Lifecycle.TryNumber, head: ResponseHead?, error: any Error) {
        guard core.withLock({ $0.workSlot.conclude(number) }) else { return }
        if let next = retry(after: error, head: head) { return handle(next.event(after: number)) }
        core.withLock { core in
            core.data = nil
            core.error = error
        }
        handle(.workCompleted(number))
    }

    /// Validates and parses the response. On the processing queue: the serializer may be a user's.
    private func process(
        _ number: Lifecycle.TryNumber, data: Data?, head: ResponseHead?, with serializer: any URLResponseSerialization,
        output: StreamBox?
    ) {
        do {
            let object = ObjectBox(object: try serializer.responseObject(for: head?.urlResponse, data: data))
            core.withLock { $0.object = object }
            return complete(number, output)
        } catch {
            let object = ObjectBox(object: error.serializedResponseObject)
            core.withLock { core in
                core.object = object
                core.error = error
            }
        }
        handle(.workCompleted(number))
    }

    private func finish() {
        // In this order: what the end leads to must not be told before it.
        deliver()
        executionDidFinish()
        deliveryDidPostEnd()
    }
}
