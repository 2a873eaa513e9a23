import ConvoySupport
import Foundation

/// Methods that perform the actions of an operation's lifecycle, and begin its attempts.
extension URLConnectionOperation {
    /// Performs the action of a lifecycle change. In the meantime other threads may have made any number of changes and
    /// performed their actions, so each action must be correct even if it is late, as explained below.
    func carryOut(_ transition: AtomicLifecycle.Transition) {
        let (old, new) = (transition.old, transition.new)
        // The log sorts changes that are recorded late.
        note(transition)
        ActivityListeners.note(transition, of: self)
        // Foundation reads `isExecuting` in response, and ignores the notification if the value has become false.
        if new.state == .executing, old.state != .executing { executionDidBegin() }
        if old.isBackingOff, !new.isBackingOff { cancelWait(after: old.attemptNumber) }
        switch transition.action {
        case .nothing: break
        // The operation cannot finish or begin another attempt before this one has ended, and this one cannot end
        // before it has begun here. `begin` observes an earlier stop in the lifecycle.
        case .begin(let number): begin(number)
        // A stop affects only its own attempt. An attempt that has not begun will observe the stop in the lifecycle;
        // for an attempt that has ended, the stop has no effect.
        case .stop(let number): stop(number)
        // The freed slot is the one that the queue granted for this start. The queue grants no other slot until this
        // one is returned, so it cannot be confused with the slot of a later start. After taking the slot back, the
        // queue checks whether the operation is ready again. A finished operation has left the queue.
        case .slotFreed:
            enterCompletionGroup()
            slotDidFree()
        case .stopAndFreeSlot(let number):
            stop(number)
            slotDidFree()
        // Holding and releasing both read the current state, so the later action leaves the attempt as the lifecycle
        // requires.
        case .holdAndFreeSlot(let number):
            holdOrRelease(number)
            slotDidFree()
        case .release(let number): holdOrRelease(number)
        case .awaitRetry(let number):
            slotDidFree()
            awaitRetry(after: number)
        // The commit checks whether it was abandoned before it began.
        case .commit(let number): commit(number)
        case .awaitCommit(let number): awaitCommit(number)
        // The queue reads the current value of `isReady`.
        case .readinessChanged: readinessDidChange()
        case .restart:
            // A Foundation queue starts an operation only once; afterwards the operation restarts itself. If it is no
            // longer ready, or was started elsewhere, `start` has no effect.
            if new.wasStarted, !isScheduled { start() } else { readinessDidChange() }
        // `finish` is the last action of the lifecycle, and is performed once.
        case .finish: finish()
        }
    }

    // MARK: The attempt in the lifecycle

    /// Returns whether the lifecycle lets the attempt continue, so that it neither has to stop nor is held.
    func isRunning(_ attempt: Attempt) -> Bool {
        let life = lifecycle.value
        return life.isUnderWay(attempt.number) && life.work == .running && life.state == .executing
    }

    /// Returns whether an attempt must stop instead of taking its next step, because a stop was requested, or because
    /// the operation is paused and has no connection to hold. Must be called under the operation's lock.
    func mustStop(_ attempt: Attempt) -> Bool {
        let life = lifecycle.value
        guard life.isUnderWay(attempt.number) else { return false }
        return life.work == .stopping || life.work == .running && life.state != .executing && attempt.phase.isPreparing
    }

    /// Takes the next step of an attempt. Returns false if the attempt must stop or has ended.
    func advance(_ attempt: Attempt, to next: AttemptPhase) -> Bool {
        core.withLock { _ in attempt.phase.advance(to: next, unless: mustStop(attempt)) }
    }

    private func stop(_ number: Lifecycle.AttemptNumber) {
        let isFinal = lifecycle.value.isEnding
        let (attempt, stop, transport) = core.withLock { core -> (Attempt?, AttemptPhase.Stop, (any Transport)?) in
            guard let attempt = core.attempt(number) else { return (nil, .nothing, nil) }
            return (attempt, attempt.phase.stop(isFinal: isFinal), isFinal ? attempt.transport : nil)
        }
        switch stop {
        case .nothing: return
        case .call(let stop):
            stop()
            // If the connection has already ended, the attempt may be waiting for a user's stream.
            if let attempt { transport?.perform { attempt.giveUp() } }
        case .ended(let call):
            if let call { BlockingWorkers.shared.replaceThread(of: call) }
            handle(.workStopped(number))
        }
    }

    /// Holds the connection of an attempt if the operation is paused, otherwise releases it.
    private func holdOrRelease(_ number: Lifecycle.AttemptNumber) {
        let (attempt, phase, transport) = core.withLock { core in
            let attempt = core.attempt(number)
            return (attempt, attempt?.phase, attempt?.transport)
        }
        // Without a connection, the next step observes the pause.
        guard let attempt, case .connected(let connection) = phase else { return }
        transport?.perform { [self] in
            let life = lifecycle.value
            guard life.isUnderWay(number), life.work == .running else { return }
            if life.state == .executing { attempt.release(connection, of: self) } else { attempt.hold(connection) }
        }
    }

    // MARK: Beginning

    /// Begins an attempt: prepares the request if needed, then connects or starts a worker.
    private func begin(_ number: Lifecycle.AttemptNumber) {
        let start = core.withLock { core in
            core.enterCompletionGroup()
            defer { core.hasBegun = true }
            return AttemptStart(number, &core)
        }
        let (attempt, settings) = (start.attempt, start.settings)
        start.wait?.cancel()
        if start.isFirst {
            if settings.hasTotalTimeout { beginResourceTimeout() }
            if settings.hasRetryPolicy, let host = schedulingHost { retryPolicy?.budget?.deposit(forHost: host) }
            if settings.postsNotifications { OperationNotifications.post(.networkingOperationDidStart, of: self) }
            if settings.dependencyFailurePolicy == .cancel, let cause = failureOfDependency() { cancel(because: cause) }
        }
        if let preset = start.preset, finish(attempt, with: preset) { return }
        if let failure = start.presetFailure { return decide(.failed(failure, nil), after: attempt) }
        let delegate = delegate(interestedIn: .beginning)
        let provider = start.provider
        guard start.hasPreparation || delegate != nil || provider != nil else { return connect(attempt) }
        let isCalled = callUserCode(for: attempt) { [self] in
            Result { () throws -> TraceContext? in
                try prepareRequest(of: attempt)
                guard isRunning(attempt) else { return nil }
                try delegate?.willBegin(self)
                return try provider?(self)
            }
        } then: { [self] result in
            switch result {
            case .success(let context): connect(attempt, tracedBy: context)
            // Do not retry, because a retry would send the request without its preparation.
            case .failure(let error): decide(.settled(error), after: attempt)
            }
        }
        if !isCalled { decide(.stopped, after: attempt) }
    }

    /// The values that an attempt needs at its start, read under one lock.
    private struct AttemptStart {
        let attempt: Attempt
        let settings: AttemptSettings
        let isFirst: Bool
        /// The previous attempt. It may hold the last reference to a user's object, so it is released outside the lock.
        let earlier: Attempt?
        /// The outcome decided in advance, if this attempt must not send a request.
        let preset: Attempt.PresetOutcome?
        let presetFailure: (any Error)?
        let wait: RetryDelay?
        let hasPreparation: Bool
        let provider: TraceContextProvider?

        init(_ number: Lifecycle.AttemptNumber, _ core: inout OperationCore) {
            earlier = core.attempt
            preset = earlier?.settlement.take()
            wait = earlier?.wait.take()
            presetFailure = core.presetFailure
            hasPreparation = core.handlers.state?.hasPreparation ?? false
            provider = core.handlers.traceContext
            settings = core.common.prepared
            attempt = Attempt(number, after: earlier, settings)
            core.attempt = attempt
            isFirst = !core.hasBegun
            if isFirst, settings.hasRetryPolicy { core.retryRecord.began = core.common.values.holder.clock.now }
        }
    }

    /// Finishes an attempt with a preset outcome, without sending a request. Returns false if the held response cannot
    /// be delivered.
    private func finish(_ attempt: Attempt, with preset: Attempt.PresetOutcome) -> Bool {
        switch preset {
        case .failure(let error): decide(.settled(error), after: attempt)
        case .heldResponse:
            guard attempt.body.hasPlace, let transport = attempt.transport else { return false }
            // In the `working` phase, a stop can end the attempt while it waits for a user's stream.
            if advance(attempt, to: .working(stop: nil)) {
                transport.perform { [self] in attempt.deliverHeldResponse(of: self) }
            } else {
                decide(.stopped, after: attempt)
            }
        }
        return true
    }

    /// Calls user code that may block, before an attempt has its connection. Passes the result to `then` on the worker
    /// thread that made the call, unless the operation has ended in the meantime. A cancelled or expired operation does
    /// not wait for the call.
    ///
    /// If the attempt must stop, returns false without calling the code, and the caller must end the attempt.
    func callUserCode<Value: Sendable>(
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
}
