import ConvoyCache
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// Carries out what an operation's lifecycle requires, and begins its attempts.
extension URLConnectionOperation {
    /// Carries out the action of a change of the lifecycle. Meanwhile other threads may have made any number of changes
    /// and carried out their actions. So each action must be right however late it comes; the comments below say why it
    /// is.
    func carryOut(_ transition: AtomicLifecycle.Transition) {
        let (old, new) = (transition.old, transition.new)
        // The log sorts changes that come late by their numbers.
        note(transition)
        ActivityListeners.note(transition, of: self)
        // Foundation reads `isExecuting` itself, and does nothing if it is false by now.
        if new.state == .executing, old.state != .executing { executionDidBegin() }
        // An attempt that has begun since has ended the wait itself.
        if old.isBackingOff, !new.isBackingOff, let attempt = attempt(old.tryNumber) { endWait(of: attempt) }
        switch transition.action {
        case .nothing: break
        // The operation neither finishes nor begins another attempt before this one has ended, and this one cannot end
        // before it has begun here. If a stop came first, the lifecycle says so.
        case .begin(let number): begin(number)
        // Affects only its own attempt: one that has not begun will find the stop, and one that has ended needs none.
        case .stop(let number): stop(number)
        // This is the slot that the queue gave for this one start. The queue gives the operation no other until it has
        // come back, so it cannot be mistaken for the slot of a later start. After taking it back, the queue itself
        // checks whether the operation is ready again. An operation that has finished has left the queue.
        case .slotFreed:
            enterCompletionGroup()
            slotDidFree()
        case .stopAndFreeSlot(let number):
            stop(number)
            slotDidFree()
        case .awaitRetry(let number):
            slotDidFree()
            // If the next attempt has begun, or the operation has finished, there is nothing to wait for.
            if let attempt = attempt(number) { awaitRetry(after: attempt) }
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

    // MARK: The attempt in the lifecycle

    /// The attempt that the lifecycle knows by a number; nil if it has not begun, or is not the last one any more.
    private func attempt(_ number: Lifecycle.TryNumber) -> Attempt? { core.withLock { $0.attempt(number) } }

    /// Whether the lifecycle has the attempt go on.
    func isRunning(_ attempt: Attempt) -> Bool { work(of: attempt) == .running }

    private func work(of attempt: Attempt) -> Lifecycle.Work {
        let life = lifecycle.value
        return life.tryNumber == attempt.number ? life.work : .none
    }

    /// Makes the next step of an attempt. False if it was asked to stop, or has ended.
    func advance(_ attempt: Attempt, to next: AttemptPhase) -> Bool {
        core.withLock { _ in attempt.phase.advance(to: next, unless: work(of: attempt) == .stopping) }
    }

    private func stop(_ number: Lifecycle.TryNumber) {
        let isFinal = lifecycle.value.isEnding
        let (attempt, stop, carrier) = core.withLock { core -> (Attempt?, AttemptPhase.Stop, (any Transport)?) in
            guard let attempt = core.attempt(number) else { return (nil, .nothing, nil) }
            return (attempt, attempt.phase.stop(isFinal: isFinal), isFinal ? attempt.carrier : nil)
        }
        switch stop {
        case .nothing: return
        case .call(let stop):
            stop()
            // The connection may have ended, and the attempt be waiting for a user's stream.
            if let attempt { carrier?.perform { attempt.giveUp() } }
        case .ended(let call):
            if let call { BlockingWorkers.shared.replaceThread(of: call) }
            handle(.workStopped(number))
        }
    }

    // MARK: Beginning

    /// Begins an attempt: prepares the request, where that is asked for, and lets a connection or a worker do the rest.
    private func begin(_ number: Lifecycle.TryNumber) {
        let beginning = core.withLock { core in
            core.enterCompletionGroup()
            defer { core.hasBegun = true }
            return Beginning(number, &core)
        }
        let (attempt, preparation, provider) = (beginning.attempt, beginning.preparation, beginning.provider)
        // It may hold the last reference to a user's object, and is released without the lock.
        withExtendedLifetime(beginning.earlier) {}
        beginning.wait?.end()
        if beginning.isFirst {
            if beginning.isLimited { beginResourceTimeout() }
            if let policy = beginning.retryPolicy { noteFirstAttempt(policy) }
            if beginning.postsNotifications { OperationNotifications.post(false, of: self) }
            if beginning.isCancelledByDependencies, let cause = failureOfDependency() { cancel(because: cause) }
        }
        if let settlement = beginning.settlement, end(attempt, by: settlement) { return }
        if let preset = beginning.presetFailure { return end(attempt, with: .failed(preset, nil)) }
        let delegate = delegate(interestedIn: .beginning)
        guard preparation != nil || delegate != nil || provider != nil else { return connect(attempt) }
        let isCalled = callUserCode(for: attempt) { [self] in
            Result { () throws -> TraceContext? in
                if let preparation {
                    var request = request
                    try preparation.run(&request)
                    let prepared = request
                    // Under one lock, so that the request of an operation that has ended stays as it is.
                    let old = core.withLock { core -> TransferRequest? in
                        guard attempt.phase.isUnderWay else { return nil }
                        defer { core.request = .foundation(prepared) }
                        return core.request
                    }
                    guard old != nil else { return nil }
                }
                guard isRunning(attempt) else { return nil }
                try delegate?.willBegin(self)
                return try provider?(self)
            }
        } then: { [self] result in
            switch result {
            case .success(let context):
                if let context { core.withLock { $0.traceContext = context } }
                connect(attempt)
            // A retry would send the request as it was before.
            case .failure(let error): end(attempt, with: .settled(error))
            }
        }
        guard !isCalled else { return }
        if let preparation { putBack(preparation) }
        end(attempt, with: .stopped)
    }

    /// What an attempt begins with, read under one lock.
    private struct Beginning {
        let attempt: Attempt
        let earlier: Attempt?
        /// What became of the wait for this attempt.
        let settlement: Attempt.Settlement?
        let wait: AttemptWait?
        let isFirst: Bool
        let isLimited: Bool
        let isCancelledByDependencies: Bool
        let postsNotifications: Bool
        let retryPolicy: RetryPolicy?
        let presetFailure: (any Error)?
        let preparation: RequestPreparation?
        let provider: TraceContextProvider?

        init(_ number: Lifecycle.TryNumber, _ core: inout OperationCore) {
            earlier = core.attempt
            attempt = Attempt(number, after: earlier)
            core.attempt = attempt
            (settlement, wait) = (earlier?.settlement.take(), earlier?.wait.take())
            isFirst = !core.hasBegun
            isLimited = core.common.values.totalTimeout != nil
            isCancelledByDependencies = core.common.values.chosenDependencyFailurePolicy == .cancel
            postsNotifications = core.common.values.areNotificationsPosted
            retryPolicy = core.common.values.retryPolicy
            presetFailure = core.presetFailure
            preparation = core.takePreparation()
            provider = core.rareHandlers?.traceContext
        }
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

    /// Calls a user's code, which may block, before an attempt has its connection. What it returns goes to `then`, on the
    /// worker thread that called it, unless the operation has ended meanwhile. The operation ends without waiting for it
    /// when it is cancelled or its time is over.
    ///
    /// False if the attempt was asked to stop: the code is not called, and the attempt has to end.
    private func callUserCode<Value: Sendable>(
        for attempt: Attempt, _ code: @escaping @Sendable () -> Value, then: @escaping @Sendable (Value) -> Void
    ) -> Bool {
        let call = BlockingCall()
        guard advance(attempt, to: .preparing(call)) else { return false }
        BlockingWorkers.shared.perform(call) {
            let value = code()
            if call.finish() { then(value) }
        }
        return true
    }

    // MARK: Connecting

    /// What an attempt needs for its connection, read under one lock.
    private struct AttemptPlan {
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

    /// What does the work of an attempt.
    private enum AttemptWork {
        /// Nothing: it was asked to stop.
        case none
        case worker(any OperationWorker)
        /// A connection, for which a token must be had first.
        case token
        case connection(AttemptPlan)
    }

    /// Gives an attempt its connection, or lets a worker do its work, unless it was stopped while preparing.
    private func connect(_ attempt: Attempt, withToken hasToken: Bool = false) {
        let parses = serializesResponse
        let interests = delegate.map { $0.interests(in: self) } ?? []
        var delegatedCaching: CacheResponseHandler?
        if interests.contains(.caching) {
            delegatedCaching = { operation, candidate in
                guard let delegate = operation.delegate else { return candidate }
                return delegate.operation(operation, willCache: candidate)
            }
        }
        let work = core.withLock { core -> AttemptWork in
            if let worker = core.worker { return .worker(worker) }
            let isRead = core.place?.sink.isPaced == true
            if attempt.carrier == nil, isRead || !interests.isDisjoint(with: [.redirects, .responses, .data]) {
                core.isDecidedUpon = true
            }
            if !hasToken, core.common.values.authenticator != nil { return .token }
            // Before anything is opened, so that a stopped attempt leaves the output unchanged.
            guard attempt.phase.advance(to: .preparing(nil), unless: self.work(of: attempt) == .stopping) else {
                return .none
            }
            let continuation = core.authentication?.continuation
            if core.redirects != nil { core.redirects = continuation?.redirects }
            let carrier = core.openCarrier(for: attempt)
            if !attempt.body.hasPlace {
                let sink = core.place?.sink
                attempt.body.place(in: sink.map { SinkQueue($0, url: core.request.url) { carrier.perform($0) } })
            }
            var configuration = core.common.values.connectionConfiguration
            configuration.addsUserAgent = core.common.values.holder.addsUserAgent
            configuration.answersChallenges = true
            configuration.collectsMetrics = core.common.values.wantsTransactions
            configuration.continuation = continuation?.place
            if core.retry?.avoidsHTTP2 == true { configuration.usesHTTP2 = false }
            if let limit = core.common.values.receiveRateLimit { configuration.receiveRateLimits.append(limit) }
            if let limit = core.common.values.sendRateLimit { configuration.sendRateLimits.append(limit) }
            configuration.cookies = core.common.values.cookies
            configuration.cache = core.common.values.storedResponses
            let cacheHandler = configuration.cache == nil ? nil : core.rareHandlers?.cache ?? delegatedCaching
            var request = continuation.map { .foundation($0.request) } ?? core.requestWithTimeout
            // The failure that it is about may be in the cache.
            if configuration.cache != nil, core.retry?.followsAnswer == true { request = request.revalidating }
            let token = hasToken && continuation?.bearsToken ?? true ? core.authentication?.token?.token : nil
            return .connection(
                AttemptPlan(
                    carrier: carrier, request: request, configuration: configuration,
                    memoryLimit: core.memoryLimit(whenParsed: parses), token: token,
                    record: core.authentication?.record, cacheHandler: cacheHandler, isTraced: core.traceContext != nil))
        }
        switch work {
        case .none: end(attempt, with: .stopped)
        case .worker(let worker): worker.begin(OwnWork(attempt, of: self), of: self)
        case .token: if obtainToken(for: attempt) { connect(attempt, withToken: true) }
        case .connection(let plan):
            do {
                open(attempt, try authorized(plan, for: attempt))
            } catch {
                end(attempt, with: .settled(error))
            }
        }
    }

    /// Lets an attempt say who the client is, where a server has asked, or a token is to be sent.
    private func authorized(_ plan: AttemptPlan, for attempt: Attempt) throws -> AttemptPlan {
        var plan = plan
        if let token = plan.token { plan.request = try authorized(plan.request, with: token) }
        if plan.isTraced { plan.request = traced(plan.request) }
        let remembered = plan.record ?? rememberingRecord(for: plan.request, over: plan.configuration)
        attempt.isAuthorized = remembered != nil
        guard let record = remembered else { return plan }
        plan.configuration.authorizer = AuthorizerReference(record)
        if record.mayBlock(plan.request, over: plan.configuration), plan.carrier.isOfLibrary {
            let carrier = NetworkThread.blocking
            plan.carrier = carrier
            attempt.body.sink?.perform = { carrier.perform($0) }
            core.withLock { _ in attempt.carrier = carrier }
        }
        return plan
    }

    /// Connects, once the request's body can be read and the sink is open. What may block for that runs on a worker
    /// thread.
    private func open(_ attempt: Attempt, _ plan: AttemptPlan) {
        guard attempt.body.mayHaveSentBody, plan.request.bodyStream != nil else {
            return open(attempt, plan, plan.request)
        }
        let isCalled = callUserCode(for: attempt) { [self] () -> Result<TransferRequest, URLError> in
            do throws(URLError) {
                // Only the body is new: the rest may have a token that the operation's own request has not.
                var again = plan.request.urlRequest
                again.httpBodyStream = try replayedRequest().httpBodyStream
                return .success(.foundation(again))
            } catch {
                return .failure(error)
            }
        } then: { [self] result in
            switch result {
            case .success(let request): open(attempt, plan, request)
            case .failure(let error): end(attempt, with: .failed(error, nil))
            }
        }
        if !isCalled { end(attempt, with: .stopped) }
    }

    private func open(_ attempt: Attempt, _ plan: AttemptPlan, _ request: TransferRequest) {
        guard let sink = attempt.body.sink, !sink.isOpen else { return connect(attempt, plan, request) }
        let call = BlockingCall()
        sink.willOpen(as: call)
        guard advance(attempt, to: .preparing(call)) else {
            sink.willOpen(as: nil)
            return end(attempt, with: .stopped)
        }
        sink.open(as: call) { [self] failure in
            if let failure { end(attempt, with: .failed(failure, nil)) } else { connect(attempt, plan, request) }
        }
    }

    private func connect(_ attempt: Attempt, _ plan: AttemptPlan, _ request: TransferRequest) {
        let request = attempt.begin(of: self, sending: request, memoryLimit: plan.memoryLimit)
        var configuration = plan.configuration
        if let handler = plan.cacheHandler, let cache = configuration.cache?.cache as? HTTPCache {
            configuration.cache = ResponseCacheReference(HandledCache(cache) { handler(self, $0) })
        }
        // A body that goes to a file is expected to be a large one. What a reader does not read is to stay on its way.
        if let sink = attempt.body.sink?.sink {
            if sink.isPaced { configuration.closesWhenStopped = true } else { configuration.receiveBufferSize = 512 << 10 }
        }
        if let limit = (request.bodyStream as? any ThrottledBodyStream)?.rateLimit {
            configuration.sendRateLimits.append(limit)
        }
        let connection = plan.carrier.connection(for: request, configuration: configuration, delegate: attempt)
        // A stop that comes between these two finds the connection, which may be cancelled before it is started.
        if advance(attempt, to: .connected(connection)) { return connection.start() }
        attempt.abandon()
        end(attempt, with: .stopped)
    }

    /// A request with the fields of the operation's trace context.
    private func traced(_ request: TransferRequest) -> TransferRequest {
        guard let context = traceContext else { return request }
        var traced = request.urlRequest
        if traced.value(forHTTPHeaderField: "traceparent") == nil {
            traced.setValue(context.traceparent, forHTTPHeaderField: "traceparent")
            traced.setValue(context.state, forHTTPHeaderField: "tracestate")
        }
        return .foundation(traced)
    }
}
