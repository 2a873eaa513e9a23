import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// How an operation tells that it has finished, and lets go of everything.
extension URLConnectionOperation {
    struct Delivery {
        var transfer: OperationTransfer?
        var carrier: (any Transport)?
        /// The completion group, from the moment that it was entered.
        var enteredGroup: DispatchGroup?
        var hasBegun = false
        var retry = RetryRecord()
        var isFinished = false
        /// Whether the handlers have run, or there are none.
        var areHandlersDone = false
        /// Whether the end has been posted: dependents and queues know of it.
        var isEndPosted = false
        var isDelivered: Bool { areHandlersDone && isEndPosted }
        /// The library's own: what else waits for the delivery to be over.
        var hooks: [@Sendable () -> Void] = []
    }

    /// Runs the block once the operation has finished, its queue and its dependents know of it and its handlers have
    /// run; at once if that is over. The block is the library's: it must be short, and may run on the network thread.
    package final func whenDelivered(_ hook: @escaping @Sendable () -> Void) {
        let isOver = delivery.withLock { delivery in
            if !delivery.isDelivered { delivery.hooks.append(hook) }
            return delivery.isDelivered
        }
        if isOver { hook() }
    }

    /// Enters the completion group, once. From then on the group waits for the operation's handlers.
    package final func enterCompletionGroup() {
        guard let group = completionGroup else { return }
        delivery.withLock { delivery in
            guard delivery.enteredGroup == nil, !delivery.isFinished else { return }
            group.enter()
            delivery.enteredGroup = group
        }
    }

    /// Hands the handlers to their queue. To be called before anybody hears of the end who could lead to the end of
    /// another operation: then handlers on one queue run in the order in which the operations finished, and a
    /// dependent's after its dependency's.
    ///
    /// They may run at once, while the caller goes on with ``executionDidFinish()``; `deliveryDidPostEnd()` is for
    /// after that.
    func deliver() {
        enterCompletionGroup()
        delivery.withLock { $0.isFinished = true }
        let (queue, allowed, block) = settings.withLock {
            ($0.completionQueue, $0.postsNotifications, $0.handlers.completion.take())
        }
        let completion = takeCompletionHandlers()
        progressReport.finish(of: self)
        if allowed, NotificationInterest.isThere { NotificationInterest.post(NotificationInterest.didFinish, of: self) }
        guard completion != nil || block != nil else { return letGo() }
        CompletionOutbox.post(to: queue ?? .main) { [self] in
            completion?()
            block?()
            letGo()
        }
    }

    /// The handlers have run: forgets all closures.
    private func letGo() {
        let handlers = settings.withLock { settings in
            defer { settings.handlers = Handlers() }
            return settings.handlers
        }
        withExtendedLifetime(handlers) {}
        advanceDelivery(\.areHandlersDone)
    }

    /// The end has been posted.
    func deliveryDidPostEnd() { advanceDelivery(\.isEndPosted) }

    /// Lets go on who waited for the delivery, once the handlers have run and the end is posted: whichever is last.
    private func advanceDelivery(_ step: WritableKeyPath<Delivery, Bool> & Sendable) {
        let (hooks, group): ([@Sendable () -> Void], DispatchGroup?) = delivery.withLock { delivery in
            delivery[keyPath: step] = true
            guard delivery.isDelivered else { return ([], nil) }
            defer { delivery.hooks = [] }
            return (delivery.hooks, delivery.enteredGroup.take())
        }
        for hook in hooks { hook() }
        group?.leave()
    }

    func postDidStart() {
        guard NotificationInterest.isThere, postsNotifications else { return }
        NotificationInterest.post(NotificationInterest.didStart, of: self)
    }
}
