import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// The end of an operation: it runs its handlers and releases everything.
extension URLConnectionOperation: HandoverTask {
    /// Runs the block once the operation has finished, its queue and dependents have been told, and its handlers have
    /// run; at once if that has happened. For the library only: the block must be short, and may run on the network
    /// thread.
    package final func whenDelivered(_ hook: @escaping @Sendable () -> Void) {
        let isOver = core.withLock { core in
            if !core.isDelivered { core.hooks.append(hook) }
            return core.isDelivered
        }
        if isOver { hook() }
    }

    /// Enters the completion group, once. From then on the group waits for the operation's handlers.
    package final func enterCompletionGroup() {
        core.withLock { $0.enterCompletionGroup() }
    }

    /// Submits the handlers to their queue. To be called before the end is posted, as that may let other operations
    /// finish. So handlers on one queue run in the order in which the operations finished, and a dependent's after its
    /// dependency's.
    ///
    /// They may run at once, while the caller continues with ``executionDidFinish()``, and after that with
    /// `deliveryDidPostEnd()`.
    func deliver() {
        let (transfer, worker, queue, hasHandlers, postsNotifications, expiryTimer) = core.withLock { core in
            core.enterCompletionGroup()
            core.isFinished = true
            return (
                core.takeTransfer(), core.worker, core.common.values.completionQueue, core.beginHandover(),
                core.common.values.areNotificationsPosted, core.expiryTimer.take()
            )
        }
        expiryTimer?.cancel()
        // Its sink holds an open file.
        transfer?.discard()
        worker?.end(self)
        if onlookers.contains(.progress) { progressReport.finish(of: self) }
        if postsNotifications { OperationNotifications.post(true, of: self) }
        guard hasHandlers else { return handlersAreDone() }
        CompletionOutbox.post(self, to: queue ?? .main)
    }

    /// Calls the handlers. They are taken out first, so that none is called twice.
    package func runHandedOver() {
        let handlers = core.withLock { $0.takeHandlers() }
        if handlers.success != nil || handlers.failure != nil, let operation = self as? HTTPRequestOperation {
            if let error {
                handlers.failure?(operation, error)
            } else if let success = handlers.success {
                success(operation, operation.responseObject)
            }
        }
        handlers.completion?()
        handlersAreDone()
    }

    /// Sets the handlers of the end. Those that come after it are called too, once.
    final func setFinalHandlers(_ set: (inout OperationCore) -> Void) {
        let (old, queue) = core.withLock { core -> (OperationCore.FinalHandlers, DispatchQueue?) in
            let old = core.finalHandlers
            set(&core)
            return (old, core.beginHandover() ? core.common.values.completionQueue ?? .main : nil)
        }
        // What they hold may run a user's code when it is let go of: not under the lock.
        withExtendedLifetime(old) {}
        if let queue { CompletionOutbox.post(self, to: queue) }
    }

    /// The handlers have run, or there are none: forgets all closures, but for those that were set meanwhile.
    private func handlersAreDone() {
        let handlers = advanceDelivery { core in
            core.areHandlersDone = true
            return core.rareHandlers.take()
        }
        withExtendedLifetime(handlers) {}
    }

    /// Notes that the end has been posted.
    func deliveryDidPostEnd() { advanceDelivery { $0.isEndPosted = true } }

    /// Runs the hooks and leaves the completion group once the handlers have run and the end is posted, whichever comes
    /// last.
    private func advanceDelivery<Result>(_ step: (inout OperationCore) -> sending Result) -> Result {
        let (result, hooks, group) = core.withLock { core -> (Result, [@Sendable () -> Void], DispatchGroup?) in
            let result = step(&core)
            guard core.isDelivered else { return (result, [], nil) }
            defer { core.hooks = [] }
            return (result, core.hooks, core.enteredGroup.take())
        }
        for hook in hooks { hook() }
        group?.leave()
        return result
    }
}
