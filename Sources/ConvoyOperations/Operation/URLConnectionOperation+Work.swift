import ConvoySerialization
@_spi(ConvoyInternals) import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// What an operation does with the actions that its lifecycle asks for.
extension URLConnectionOperation {
    /// Who has the work at the moment, so that a stop finds it.
    enum WorkSlot {
        case idle
        /// Between the start and the connection. A stop is left as a note.
        case preparing(isStopped: Bool)
        case connected(any Connection)
        /// The transfer is over and its outcome is being made: nothing to stop.
        case concluding
    }

    /// Lets an event happen to the operation, from any thread.
    func happen(_ event: Lifecycle.Event) {
        guard let transition = lifecycle.handle(event) else { return }
        carryOut(transition)
    }

    func carryOut(_ transition: AtomicLifecycle.Transition) {
        let (old, new) = (transition.old, transition.new)
        observationCenter.note(transition, of: self)
        if new.state == .executing, old.state != .executing { executionDidBegin() }
        switch transition.action {
        case .nothing: break
        case .begin: beginWork()
        case .stop: stopWork()
        case .stopAndFreeSlot:
            stopWork()
            slotDidFree()
        case .slotFreed: slotDidFree()
        case .awaitRetry:
            slotDidFree()
            awaitRetry()
        case .readinessChanged: readinessDidChange()
        case .restart:
            // A Foundation queue starts an operation once; after that the operation is on its own.
            if new.wasStarted, !isScheduled { start() } else { readinessDidChange() }
        case .finish: finish()
        }
    }

    // MARK: Beginning

    private func beginWork() {
        workSlot.withLock { $0 = .preparing(isStopped: false) }
        // A stop that came before the note could be left is in the lifecycle.
        if lifecycle.value.work == .stopping { stopWork() }
        let isFirst = delivery.withLock { delivery in
            defer { delivery.hasBegun = true }
            return !delivery.hasBegun
        }
        // Taken out, so that it runs once however often the operation is paused.
        let (preset, policy, retries, prepare) = settings.withLock {
            ($0.presetFailure, $0.dependencyFailurePolicy, $0.retryPolicy, $0.handlers.prepare.take())
        }
        if isFirst {
            if let retries { noteFirstTry(under: retries) }
            postDidStart()
            if policy == .cancel, let cause = failureOfDependency() { cancel(because: cause) }
        }
        if isStoppedInPreparation() {
            if let prepare { self.prepare = prepare }
            return happen(.workStopped)
        }
        if let preset { return conclude(data: nil, head: nil, error: preset) }
        guard let prepare else { return connect() }
        BlockingWorkers.shared.perform { [self] in
            do {
                var request = self.request
                try prepare(&request)
                let prepared = request
                settings.withLock { $0.request = prepared }
                connect()
            } catch {
                conclude(data: nil, head: nil, error: error)
            }
        }
    }

    private func isStoppedInPreparation() -> Bool {
        workSlot.withLock { slot in
            guard case .preparing(isStopped: true) = slot else { return false }
            slot = .idle
            return true
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

    private func connect() {
        // Before the output is opened: an operation that was stopped by now leaves it alone.
        if isStoppedInPreparation() { return happen(.workStopped) }
        let carrier = self.carrier
        let transfer = transfer(over: carrier)
        transfer.prepareForTry(of: self) { [self] result in
            switch result {
            case .success(let request): connect(transfer, over: carrier, with: request)
            case .failure(let error): conclude(data: nil, head: nil, error: error)
            }
        }
    }

    private func connect(_ transfer: OperationTransfer, over carrier: any Transport, with request: URLRequest) {
        var configuration = settings.withLock { $0.configuration }
        // A body that goes to a file is expected to be a large one.
        if !transfer.isInMemory { configuration.receiveBufferSize = 512 << 10 }
        if let slow = request.httpBodyStream as? any ThrottledBodyStream {
            configuration.uploadThrottle = .init(packetSize: slow.packetSize, delay: slow.delay)
        }
        let connection = carrier.connection(for: request, configuration: configuration, delegate: transfer)
        let isStopped = workSlot.withLock { slot in
            if case .preparing(isStopped: true) = slot { return true }
            slot = .connected(connection)
            return false
        }
        guard isStopped else { return connection.start() }
        transfer.abandonTry()
        transferDidStop()
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

    private func stopWork() {
        let connection: (any Connection)? = workSlot.withLock { slot in
            switch slot {
            case .preparing: slot = .preparing(isStopped: true)
            case .connected(let connection): return connection
            case .idle, .concluding: break
            }
            return nil
        }
        connection?.cancel()
    }

    // MARK: Ending

    /// The connection was cancelled and has stopped; what has arrived is in the sink.
    func transferDidStop() {
        workSlot.withLock { $0 = .idle }
        happen(.workStopped)
    }

    /// What has arrived is of no use: the work must be done again, unless the operation was asked to stop.
    func transferMustRepeat() {
        workSlot.withLock { $0 = .idle }
        happen(.workMustRepeat)
    }

    /// The head of the response that counts.
    func note(_ head: ResponseHead) { results.withLock { $0.head = head } }

    var currentHead: ResponseHead? { results.withLock { $0.head } }

    /// Whether a response is one after which the request is tried again. Then nothing concludes the work.
    func retriesInstead(of head: ResponseHead?) -> Bool {
        guard let next = retry(after: nil, head: head) else { return false }
        workSlot.withLock { $0 = .concluding }
        happen(next)
        return true
    }

    /// The transfer has brought what it can. Any thread.
    func conclude(data: Data?, head: ResponseHead?, error: (any Error)?) {
        workSlot.withLock { $0 = .concluding }
        if let error, let next = retry(after: error, head: head) { return happen(next) }
        if let error {
            results.withLock { results in
                results.data = nil
                results.error = error
            }
            return happen(.workCompleted)
        }
        process(head: head, data: data) { [self] processed in
            results.withLock { results in
                results.data = data
                results.object = processed.object
                results.error = processed.error
            }
            happen(.workCompleted)
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
