import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// How an operation tells that it has finished, and lets go of everything.
extension URLConnectionOperation: HandoverTask {
    /// Runs the block once the operation has finished, its queue and its dependents know of it and its handlers have
    /// run; at once if that is over. The block is the library's: it must be short, and may run on the network thread.
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

    /// Hands the handlers to their queue. To be called before anybody hears of the end who could lead to the end of
    /// another operation: then handlers on one queue run in the order in which the operations finished, and a
    /// dependent's after its dependency's.
    ///
    /// They may run at once, while the caller goes on with ``executionDidFinish()``; `deliveryDidPostEnd()` is for
    /// after that.
    func deliver() {
        let (transfer, queue, hasHandlers, postsNotifications) = core.withLock { core in
            core.enterCompletionGroup()
            core.isFinished = true
            return (
                core.transfer.take(), core.common.values.completionQueue, core.beginHandover(),
                core.common.values.postsNotifications
            )
        }
        // Its sink holds an open file.
        transfer?.discard()
        if onlookers.contains(.progress) { progressReport.finish(of: self) }
        if postsNotifications, NotificationInterest.isThere {
            NotificationInterest.post(NotificationInterest.didFinish, of: self)
        }
        guard hasHandlers else { return handlersAreDone() }
        CompletionOutbox.post(self, to: queue ?? .main)
    }

    /// Calls the handlers. Each is forgotten before it is called, so that nobody calls it twice.
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

    /// The end has been posted.
    func deliveryDidPostEnd() { advanceDelivery { $0.isEndPosted = true } }

    /// Lets go on who waited for the delivery, once the handlers have run and the end is posted: whichever is last.
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

    func postDidStart() {
        guard NotificationInterest.isThere, postsNotifications else { return }
        NotificationInterest.post(NotificationInterest.didStart, of: self)
    }
}
