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
        observationCenter.note(transition, of: self)
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
        workSlot.withLock { $0.begin(number) }
        let isFirst = delivery.withLock { delivery in
            defer { delivery.hasBegun = true }
            return !delivery.hasBegun
        }
        // Taken out, so that it runs once however often the operation is paused.
        let (preset, policy, retries, prepare) = settings.withLock {
            ($0.presetFailure, $0.dependencyFailurePolicy, $0.retryPolicy, $0.handlers.prepare.take())
        }
        if isFirst {
            beginResourceTimeout()
            if let retries { noteFirstTry(under: retries) }
            postDidStart()
            if policy == .cancel, let cause = failureOfDependency() { cancel(because: cause) }
        }
        if workSlot.withLock({ $0.endIfStopped(number) }) {
            if let prepare { self.prepare = prepare }
            return handle(.workStopped(number))
        }
        if let preset { return conclude(number, data: nil, head: nil, error: preset) }
        guard let prepare else { return connect(number) }
        BlockingWorkers.shared.perform { [self] in
            do {
                var request = self.request
                try prepare(&request)
                let prepared = request
                settings.withLock { $0.request = prepared }
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

    /// Gives a try its connection, unless the try was stopped in its preparation.
    private func connect(_ number: Lifecycle.TryNumber) {
        // Before anything is opened: a stopped try leaves the output as it was.
        if workSlot.withLock({ $0.endIfStopped(number) }) { return handle(.workStopped(number)) }
        let carrier = self.carrier
        let transfer = transfer(over: carrier)
        transfer.prepareForTry(number, of: self) { [self] result in
            switch result {
            case .success(let request): connect(number, transfer, over: carrier, with: request)
            case .failure(let error): conclude(number, data: nil, head: nil, error: error)
            }
        }
    }

    private func connect(
        _ number: Lifecycle.TryNumber, _ transfer: OperationTransfer, over carrier: any Transport,
        with request: URLRequest
    ) {
        var configuration = settings.withLock { $0.configuration }
        // A body that goes to a file is expected to be a large one.
        if !transfer.isInMemory { configuration.receiveBufferSize = 512 << 10 }
        if let slow = request.httpBodyStream as? any ThrottledBodyStream {
            configuration.uploadThrottle = .init(packetSize: slow.packetSize, delay: slow.delay)
        }
        let connection = carrier.connection(for: request, configuration: configuration, delegate: transfer)
        transfer.expectCallbacks(of: connection)
        // A stop that comes between these two finds the connection, which may be cancelled before it is started.
        if workSlot.withLock({ $0.connect(number, connection) }) { return connection.start() }
        transfer.abandonTry()
        transferDidStop(number)
    }

    /// What carries all tries of this operation.
    private var carrier: any Transport {
        if let chosen = delivery.withLock({ $0.carrier }) { return chosen }
        let (transport, shares) = settings.withLock { ($0.transport, $0.coalesces && $0.handlers.redirect == nil) }
        let carrier = shares ? transport.coalescing : transport
        delivery.withLock { $0.carrier = carrier }
        return carrier
    }

    private func transfer(over carrier: any Transport) -> OperationTransfer {
        if let existing = delivery.withLock({ $0.transfer }) { return existing }
        let transfer = OperationTransfer(url: request.url, output: outputStreamBox?.stream, transport: carrier)
        delivery.withLock { $0.transfer = transfer }
        return transfer
    }

    // MARK: Stopping

    private func stopWork(_ number: Lifecycle.TryNumber) {
        workSlot.withLock { $0.stop(number) }?.cancel()
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
        guard workSlot.withLock({ $0.end(number) }) else { return }
        handle(.workStopped(number))
    }

    /// What has arrived is of no use: the work must be done again, unless the operation was asked to stop.
    func transferMustRepeat(_ number: Lifecycle.TryNumber) {
        guard workSlot.withLock({ $0.end(number) }) else { return }
        handle(.workMustRepeat(number))
    }

    /// The head of the response that counts.
    func note(_ head: ResponseHead) { results.withLock { $0.head = head } }

    var currentHead: ResponseHead? { results.withLock { $0.head } }

    /// Whether a response is one after which the request is tried again. Then nothing else concludes the try.
    func retriesInstead(of head: ResponseHead?, _ number: Lifecycle.TryNumber) -> Bool {
        guard let next = retry(after: nil, head: head) else { return false }
        if workSlot.withLock({ $0.conclude(number) }) { handle(next.event(after: number)) }
        return true
    }

    /// The transfer of a try has brought what it can. Any thread.
    func conclude(_ number: Lifecycle.TryNumber, data: Data?, head: ResponseHead?, error: (any Error)?) {
        guard workSlot.withLock({ $0.conclude(number) }) else { return }
        if let error, let next = retry(after: error, head: head) { return handle(next.event(after: number)) }
        if let error {
            results.withLock { results in
                results.data = nil
                results.error = error
            }
            return handle(.workCompleted(number))
        }
        process(head: head, data: data) { [self] processed in
            results.withLock { results in
                results.data = data
                results.object = processed.object
                results.error = processed.error
            }
            handle(.workCompleted(number))
        }
    }

    private func finish() {
        // Its sink holds an open file.
        delivery.withLock { $0.transfer.take() }?.discard()
        // In this order: what the end leads to must not be told before it.
        deliver()
        executionDidFinish()
        deliveryDidPostEnd()
    }
}
