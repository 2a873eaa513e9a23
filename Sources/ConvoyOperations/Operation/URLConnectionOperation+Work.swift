import ConvoyCache
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// Carries out the actions that an operation's lifecycle requires.
extension URLConnectionOperation {
    /// Applies an event to the operation, from any thread.
    func handle(_ event: Lifecycle.Event) {
        guard let transition = lifecycle.handle(event) else { return }
        proceed(after: transition)
    }

    /// Carries out the action of a change of the lifecycle. Meanwhile other threads may have made any number of changes
    /// and carried out their actions. So each action must be right however late it comes; the comments below say why it
    /// is.
    func carryOut(_ transition: AtomicLifecycle.Transition) {
        let (old, new) = (transition.old, transition.new)
        if let record = metricsRecord { note(transition, in: record) }
        if let story { note(transition, in: story) }
        // The center sorts changes that come late by their numbers.
        if onlookers.contains(.observer) { observationCenter.note(transition, of: self) }
        ActivityListeners.note(transition, of: self)
        // Foundation reads `isExecuting` itself, and does nothing if it is false by now.
        if new.state == .executing, old.state != .executing { executionDidBegin() }
        // The try's number says which wait ends.
        if old.isBackingOff, !new.isBackingOff { endRetryWait(after: old.tryNumber) }
        switch transition.action {
        case .nothing: break
        // The operation neither finishes nor begins another try before this one has ended, and this one cannot end
        // before it has begun here. If a stop came first, `workSlot` has kept it.
        case .begin(let number): beginWork(number)
        // Affects only its own try: one that has not begun will find the stop, and one that has ended needs none.
        case .stop(let number): stopWork(number)
        // This is the slot that the queue gave for this one start. The queue gives the operation no other until it has
        // come back, so it cannot be mistaken for the slot of a later start. After taking it back, the queue itself
        // checks whether the operation is ready again. An operation that has finished has left the queue.
        case .slotFreed: slotDidFree()
        case .stopAndFreeSlot(let number):
            stopWork(number)
            slotDidFree()
        case .awaitRetry(let number):
            slotDidFree()
            // A `retryDue` that comes after a pause, a cancellation or another try is recognized by its number.
            awaitRetry(after: number)
        // The commit itself looks whether it was given up before it has begun.
        case .commit(let number): commit(number)
        case .awaitCommit(let number): awaitCommit(number)
        // The receiver reads `isReady` itself, and sees its current value.
        case .readinessChanged: readinessDidChange()
        case .restart:
            // A Foundation queue starts an operation once; after that the operation is on its own. If it is no longer
            // ready, or was started by another, `start` changes nothing.
            if new.wasStarted, !isScheduled { start() } else { readinessDidChange() }
        // This is the last action of the lifecycle, and comes once.
        case .finish: finish()
        }
    }

    // MARK: Beginning

    private func beginWork(_ number: Lifecycle.TryNumber) {
        let (isFirst, preset, policy, preparation, provider, postsNotifications, isSettled) = core.withLock { core in
            core.workSlot.begin(number)
            defer { core.hasBegun = true }
            return (
                !core.hasBegun, core.presetFailure, core.common.values.chosenDependencyFailurePolicy,
                core.takePreparation(), core.rareHandlers?.traceContext,
                core.common.values.areNotificationsPosted, core.authentication?.settlement != nil
            )
        }
        if isFirst {
            beginResourceTimeout()
            noteFirstTry()
            if postsNotifications { OperationNotifications.post(false, of: self) }
            if policy == .cancel, let cause = failureOfDependency() { cancel(because: cause) }
        }
        if isSettled, endsBySettlement(number) { return }
        guard preparation != nil || preset != nil else { return transfer(number, under: provider) }
        if core.withLock({ $0.workSlot.endIfStopped(number) }) {
            if let preparation { putBack(preparation) }
            return handle(.workStopped(number))
        }
        if let preset { return conclude(number, data: nil, head: nil, error: preset) }
        guard let preparation else { return }
        let own = request
        callUserCode(number) {
            Result {
                var request = own
                try preparation.run(&request)
                return request
            }
        } then: { [self] result in
            switch result {
            case .success(let prepared):
                set(own: \.request, to: .foundation(prepared))
                transfer(number, under: provider)
            // A retry would send the request as it was before.
            case .failure(let error): conclude(number, settledBy: error)
            }
        }
    }

    private func transfer(_ number: Lifecycle.TryNumber, under provider: TraceContextProvider?) {
        let delegate = delegate(interestedIn: .beginning)
        guard delegate != nil || provider != nil else { return beginTransfer(number) }
        callUserCode(number) { [self] in
            Result {
                try delegate?.willBegin(self)
                return try provider.map { try $0(self) }
            }
        } then: { [self] result in
            switch result {
            case .success(let context):
                if let context { core.withLock { $0.traceContext = context } }
                beginTransfer(number)
            case .failure(let error): conclude(number, settledBy: error)
            }
        }
    }

    /// Calls a user's code, which may block, before a try has its connection. What it returns goes to `then`, on the
    /// worker thread that called it, unless the operation has ended meanwhile. The operation ends without waiting for it
    /// when it is cancelled or its time is over.
    func callUserCode<Value: Sendable>(
        _ number: Lifecycle.TryNumber, _ code: @escaping @Sendable () -> Value, then: @escaping @Sendable (Value) -> Void
    ) {
        let call = BlockingCall()
        guard mayCall(number, call) else { return handle(.workStopped(number)) }
        BlockingWorkers.shared.perform(call) {
            let value = code()
            if call.finish() { then(value) }
        }
    }

    /// Whether a call of a user's code may be made for a try that is preparing. If not, the try was asked to stop, and has
    /// ended: the caller says so to the lifecycle.
    func mayCall(_ number: Lifecycle.TryNumber, _ call: BlockingCall) -> Bool {
        core.withLock { $0.workSlot.prepare(number, by: call) }
    }

    private func beginTransfer(_ number: Lifecycle.TryNumber) {
        if let worker = core.withLock({ $0.worker }) { begin(number, with: worker) } else { connect(number) }
    }

    private func failureOfDependency() -> (any Error)? {
        for dependency in dependencies {
            if let operation = dependency as? URLConnectionOperation, let error = operation.error { return error }
            if dependency.isCancelled {
                let reason = (dependency as? ScheduledOperation)?.cancellationReason
                return reason ?? URLError(.cancelled, url: nil, "A dependency was cancelled.")
            }
        }
        return nil
    }

    /// What a try needs, read under one lock.
    private struct TryWork {
        let transfer: OperationTransfer
        var carrier: any Transport
        var request: TransferRequest
        var configuration: ConnectionConfiguration
        let memoryLimit: Int
        let token: AccessToken?
        /// What the operation was asked for, if it was.
        let record: AuthenticationRecord?
        let cacheHandler: CacheResponseHandler?
        let isTraced: Bool
    }

    /// Gives a try its connection, unless the try was stopped while preparing.
    private func connect(_ number: Lifecycle.TryNumber, withToken hasToken: Bool = false) {
        let parses = serializesResponse
        var lacksToken = false
        let interests = delegate.map { $0.interests(in: self) } ?? []
        var delegatedCaching: CacheResponseHandler?
        if interests.contains(.caching) {
            delegatedCaching = { operation, candidate in
                guard let delegate = operation.delegate else { return candidate }
                return delegate.operation(operation, willCache: candidate)
            }
        }
        let prepared = core.withLock { core -> TryWork? in
            let isRead = core.outputStream?.stream is any PacedOutputStream
            if core.carrier == nil, isRead || !interests.isDisjoint(with: [.redirects, .responses, .data]) {
                core.isDecidedUpon = true
            }
            if !hasToken, core.common.values.authenticator != nil {
                lacksToken = true
                return nil
            }
            // Before anything is opened, so that a stopped try leaves the output unchanged.
            if core.workSlot.endIfStopped(number) { return nil }
            let continuation = core.authentication?.continuation
            if !core.redirects.isEmpty { core.redirects = continuation?.redirects ?? [] }
            let carrier = core.openCarrier()
            var configuration = core.common.values.connectionConfiguration
            configuration.addsUserAgent = core.common.values.holder.addsUserAgent
            configuration.answersChallenges = true
            configuration.collectsMetrics = core.common.values.wantsTransactions
            configuration.continuation = continuation?.place
            if let limit = core.common.values.receiveRateLimit { configuration.receiveRateLimits.append(limit) }
            if let limit = core.common.values.sendRateLimit { configuration.sendRateLimits.append(limit) }
            configuration.cookies = core.common.values.cookies
            configuration.cache = core.common.values.storedResponses
            let cacheHandler = configuration.cache == nil ? nil : core.rareHandlers?.cache ?? delegatedCaching
            var request = continuation.map { .foundation($0.request) } ?? core.requestWithTimeout
            // The failure that it is about may be in the cache.
            if configuration.cache != nil, core.retry?.followsAnswer == true { request = request.revalidating }
            let token = hasToken && continuation?.bearsToken ?? true ? core.authentication?.token?.token : nil
            return TryWork(
                transfer: core.openTransfer(over: carrier), carrier: carrier,
                request: request,
                configuration: configuration, memoryLimit: core.memoryLimit(whenParsed: parses), token: token,
                record: core.authentication?.record, cacheHandler: cacheHandler, isTraced: core.traceContext != nil)
        }
        if lacksToken {
            if obtainToken(for: number) { connect(number, withToken: true) }
            return
        }
        guard let prepared else { return handle(.workStopped(number)) }
        let work: TryWork
        do {
            work = try authorized(prepared)
        } catch {
            return conclude(number, settledBy: error)
        }
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

    /// Lets a try say who the client is, where somebody has asked, or a token is to be sent.
    private func authorized(_ prepared: TryWork) throws -> TryWork {
        var work = prepared
        if let token = work.token { work.request = try authorized(work.request, with: token) }
        if work.isTraced { work.request = traced(work.request) }
        let remembered = work.record ?? rememberingRecord(for: work.request, over: work.configuration)
        work.transfer.isAuthorized = remembered != nil
        guard let record = remembered else { return work }
        work.configuration.authorizer = AuthorizerReference(record)
        if record.mayBlock(work.request, over: work.configuration), work.carrier.isOfLibrary {
            work.carrier = NetworkThread.blocking
            work.transfer.use(work.carrier)
            core.withLock { $0.carrier = NetworkThread.blocking }
        }
        return work
    }

    private func connect(_ number: Lifecycle.TryNumber, _ work: TryWork, with request: TransferRequest) {
        var configuration = work.configuration
        if let handler = work.cacheHandler, let cache = configuration.cache?.cache as? HTTPCache {
            configuration.cache = ResponseCacheReference(HandledCache(cache) { handler(self, $0) })
        }
        // A body that goes to a file is expected to be a large one. What a reader does not read is to stay on its way.
        if work.transfer.isRead {
            configuration.closesWhenStopped = true
        } else if !work.transfer.isInMemory {
            configuration.receiveBufferSize = 512 << 10
        }
        if let limit = (request.bodyStream as? any ThrottledBodyStream)?.rateLimit {
            configuration.sendRateLimits.append(limit)
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
        let isFinal = lifecycle.value.isEnding
        let (stop, transfer, carrier) = core.withLock { core in
            (
                core.workSlot.stop(number, isFinal: isFinal), isFinal ? core.transfer : nil, isFinal ? core.carrier : nil
            )
        }
        switch stop {
        case .nothing: return
        case .cancel(let connection):
            connection.cancel()
            // The connection may have ended, and the transfer be waiting for a user's stream.
            if let transfer, let carrier { carrier.perform { transfer.giveUp(number) } }
        case .ended(let call):
            if let call { BlockingWorkers.shared.replaceThread(of: call) }
            handle(.workStopped(number))
        }
    }
}
