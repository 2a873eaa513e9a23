import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// How an operation tells that it has finished, and lets go of everything.
extension URLConnectionOperation {
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

    /// What is told at the end, and where.
    private struct Completion: Sendable {
        let queue: DispatchQueue?
        let success: HTTPRequestOperation.Success?
        let failure: HTTPRequestOperation.Failure?
        let block: (@Sendable () -> Void)?

        var isEmpty: Bool { success == nil && failure == nil && block == nil }
    }

    /// Hands the handlers to their queue. To be called before anybody hears of the end who could lead to the end of
    /// another operation: then handlers on one queue run in the order in which the operations finished, and a
    /// dependent's after its dependency's.
    ///
    /// They may run at once, while the caller goes on with ``executionDidFinish()``; `deliveryDidPostEnd()` is for
    /// after that.
    func deliver() {
        let (transfer, completion, postsNotifications) = core.withLock { core in
            core.enterCompletionGroup()
            core.isFinished = true
            let completion = Completion(
                queue: core.common.values.completionQueue, success: core.success.take(), failure: core.failure.take(),
                block: core.completion.take())
            return (core.transfer.take(), completion, core.common.values.postsNotifications)
        }
        // Its sink holds an open file.
        transfer?.discard()
        if onlookers.contains(.progress) { progressReport.finish(of: self) }
        if postsNotifications, NotificationInterest.isThere {
            NotificationInterest.post(NotificationInterest.didFinish, of: self)
        }
        guard !completion.isEmpty else { return releaseHandlers() }
        CompletionOutbox.post(to: completion.queue ?? .main) { [self] in
            call(completion)
            releaseHandlers()
        }
    }

    private func call(_ completion: Completion) {
        if let operation = self as? HTTPRequestOperation {
            if let error {
                completion.failure?(operation, error)
            } else if let success = completion.success {
                success(operation, operation.responseObject)
            }
        }
        completion.block?()
    }

    /// The handlers have run: forgets all closures.
    private func releaseHandlers() {
        let handlers = core.withLock { core in
            (core.rareHandlers.take(), core.completion.take(), core.success.take(), core.failure.take())
        }
        withExtendedLifetime(handlers) {}
        advanceDelivery { $0.areHandlersDone = true }
    }

    /// The end has been posted.
    func deliveryDidPostEnd() { advanceDelivery { $0.isEndPosted = true } }

    /// Lets go on who waited for the delivery, once the handlers have run and the end is posted: whichever is last.
    private func advanceDelivery(_ step: (inout OperationCore) -> Void) {
        let (hooks, group): ([@Sendable () -> Void], DispatchGroup?) = core.withLock { core in
            step(&core)
            guard core.isDelivered else { return ([], nil) }
            defer { core.hooks = [] }
            return (core.hooks, core.enteredGroup.take())
        }
        for hook in hooks { hook() }
        group?.leave()
    }

    func postDidStart() {
        guard NotificationInterest.isThere, postsNotifications else { return }
        NotificationInterest.post(NotificationInterest.didStart, of: self)
    }
}
