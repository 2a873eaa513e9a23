@_spi(ConvoyInternals) import ConvoyTransport
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
        var isDelivered = false
        /// The library's own: what else waits for the operation's handlers to have run.
        var hooks: [@Sendable () -> Void] = []
    }

    /// Runs the block once the operation has finished and its handlers have run; at once if that is over. The block
    /// is the library's: it must be short, and may run on the network thread.
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

    func deliver() {
        enterCompletionGroup()
        delivery.withLock { $0.isFinished = true }
        let (queue, allowed, block) = settings.withLock {
            ($0.completionQueue, $0.postsNotifications, $0.handlers.completion.take())
        }
        let posts = allowed && NotificationInterest.isThere
        let completion = takeCompletionHandlers()
        progressReport.finish(of: self)
        guard completion != nil || block != nil else {
            if posts {
                PostsOfTurn.post(to: OperationQueues.processing) { [self] in
                    NotificationCenter.default.post(name: NotificationInterest.didFinish, object: self)
                }
            }
            return letGo()
        }
        PostsOfTurn.post(to: queue ?? .main) { [self] in
            if posts { NotificationCenter.default.post(name: NotificationInterest.didFinish, object: self) }
            completion?()
            block?()
            letGo()
        }
    }

    /// Forgets all closures, then lets go on who waited for that.
    private func letGo() {
        let handlers = settings.withLock { settings in
            defer { settings.handlers = Handlers() }
            return settings.handlers
        }
        observationCenter.finish()
        let (hooks, group) = delivery.withLock { delivery in
            delivery.isDelivered = true
            defer { delivery.hooks = [] }
            return (delivery.hooks, delivery.enteredGroup.take())
        }
        withExtendedLifetime(handlers) {}
        for hook in hooks { hook() }
        group?.leave()
    }

    func postDidStart() {
        guard NotificationInterest.isThere, postsNotifications else { return }
        PostsOfTurn.post(to: OperationQueues.processing) { [self] in
            NotificationCenter.default.post(name: NotificationInterest.didStart, object: self)
        }
    }
}
