import ConvoySupport
import ConvoyTransport
import Dispatch
import Foundation

/// Methods that finish an operation: they call its handlers and release its resources.
extension URLConnectionOperation: HandoverTask {
    /// Runs the block once the operation has finished, the notification has been posted, and the handlers have run;
    /// immediately if all of this has already happened. For internal use only: the block must return quickly, and may
    /// run on the network thread.
    package final func whenDelivered(_ hook: @escaping @Sendable () -> Void) {
        // Set the flag before the check, so that either the last step finds the flag, or the check finds the delivery
        // complete.
        declare(.delivery)
        let isOver = core.withLock { core in
            let isOver = isDelivered
            if !isOver { core.hooks.append(hook) }
            return isOver
        }
        if isOver { hook() }
    }

    /// Enters the completion group once. From then on the group waits for the operation's handlers.
    package final func enterCompletionGroup() {
        if has(.completionGroup) { core.withLock { $0.enterCompletionGroup() } }
    }

    /// Submits the handlers to their queue. This happens before the end is posted, because posting it may let other
    /// operations finish. Thus handlers on one queue run in the order in which the operations finish, and a dependent's
    /// handlers run after its dependency's.
    ///
    /// The handlers may run immediately, while the caller continues with ``executionDidFinish()`` and then with
    /// `didDeliver(.endPosted)`.
    func deliver() {
        let end = core.withLock { core in
            core.enterCompletionGroup()
            core.isFinished = true
            return Delivery(&core)
        }
        end.expiryTimer?.cancel()
        end.wait?.cancel()
        // Discard the attempt now, because its sink may keep a file open.
        end.attempt?.discard()
        end.worker?.release(self)
        if has(.progress) { progressReport.finish(of: self) }
        if end.settings.postsNotifications { OperationNotifications.post(.networkingOperationDidFinish, of: self) }
        if end.hasHandlers {
            CompletionOutbox.post(self, to: end.settings.completionQueue ?? .mainForHandlers)
        } else {
            declare(.handlersRan)
        }
    }

    /// The values of a finished operation, taken out under one lock.
    private struct Delivery {
        let attempt: Attempt?
        let settings: AttemptSettings
        let hasHandlers: Bool
        let wait: RetryDelay?
        let phase: AttemptPhase?
        let worker: (any AttemptRunner)?
        let expiryTimer: (any ClockTimer)?
        /// The handlers to release uncalled; nil if a completion handler is pending.
        let handlers: OperationCore.OptionalHandlers?

        init(_ core: inout OperationCore) {
            attempt = core.takeAttempt()
            settings = core.common.prepared
            hasHandlers = core.beginHandover()
            core.areHandlersDone = !hasHandlers
            wait = attempt?.wait.take()
            phase = attempt?.phase.finish()
            worker = core.worker
            expiryTimer = core.expiryTimer.take()
            handlers = hasHandlers ? nil : core.handlers.take()
        }
    }

    package func runHandedOver() {
        // Record the step only now that the operation has released the closures.
        let isFirst = callHandlers()
        if isFirst { didDeliver(.handlersRan) }
    }

    /// Calls the completion handlers. All handlers are taken out first, so that none is called twice. Completion
    /// handlers that are set in the meantime are also called, possibly after the delivery.
    ///
    /// - Returns: Whether this was the first call.
    private func callHandlers() -> Bool {
        let hasOutcome = hasOutcome
        let (handlers, result, isFirst, rare) = core.withLock { core in
            defer { core.areHandlersDone = true }
            return (core.takeHandlers(), core.result, !core.areHandlersDone, core.handlers.take())
        }
        if handlers.success != nil || handlers.failure != nil, let operation = self as? HTTPRequestOperation {
            if let error = hasOutcome ? result.error : error {
                handlers.failure?(operation, error)
            } else if let success = handlers.success {
                success(operation, operation.object(of: result))
            }
        }
        handlers.completion?()
        withExtendedLifetime(rare) {}
        return isFirst
    }

    /// Sets completion handlers. Handlers set after the operation has finished are also called once.
    final func setFinalHandlers(_ set: (inout OperationCore.FinalHandlers) -> Void) {
        let (old, isLate, queue) = core.withLock { core -> (OperationCore.FinalHandlers, Bool, DispatchQueue?) in
            let old = core.finalHandlers
            set(&core.finalHandlers)
            return (old, core.beginHandover(), core.common.prepared.completionQueue)
        }
        // Releasing the old handlers may run user code, which must not run under the lock.
        withExtendedLifetime(old) {}
        if isLate { CompletionOutbox.post(self, to: queue ?? .mainForHandlers) }
    }

    /// Whether the handlers have run and the end has been posted to dependents and queues.
    final var isDelivered: Bool { has(.delivered) }

    /// Records one of the two steps of the delivery: the handlers have run, or the end has been posted. The delivery is
    /// complete after both.
    func didDeliver(_ step: OperationTraits) {
        let earlier = declare(step)
        guard !earlier.contains(step), earlier.union(step).contains(.delivered),
            earlier.contains(.delivery) || earlier.contains(.completionGroup)
        else { return }
        let (hooks, group) = core.withLock { core in
            defer { core.hooks = [] }
            return (core.hooks, core.enteredGroup.take())
        }
        for hook in hooks { hook() }
        group?.leave()
    }
}
