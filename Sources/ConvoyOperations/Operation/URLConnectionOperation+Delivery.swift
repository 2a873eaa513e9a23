import ConvoySupport
import ConvoyTransport
import Dispatch
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
        let end = core.withLock { core in
            core.enterCompletionGroup()
            core.ending.insert(.begun)
            return Delivery(&core)
        }
        withExtendedLifetime((end.phase, end.rareHandlers)) {}
        end.expiryTimer?.cancel()
        end.wait?.end()
        // Its sink holds an open file.
        end.attempt?.discard()
        end.worker?.end(self)
        if onlookers.contains(.progress) { progressReport.finish(of: self) }
        if end.postsNotifications { OperationNotifications.post(true, of: self) }
        if end.hasHandlers { CompletionOutbox.post(self, to: end.queue ?? .main) }
    }

    /// What is taken out of an operation that has finished, under one lock.
    private struct Delivery {
        let attempt: Attempt?
        let wait: AttemptWait?
        let phase: AttemptPhase?
        let worker: (any OperationWorker)?
        let expiryTimer: (any ClockTimer)?
        let postsNotifications: Bool
        let queue: DispatchQueue?
        let hasHandlers: Bool
        /// Those that are never called, if no handler waits to be called before them.
        let rareHandlers: OperationCore.RareHandlers?

        init(_ core: inout OperationCore) {
            attempt = core.takeAttempt()
            (wait, phase) = (attempt?.wait.take(), attempt?.phase.end())
            (worker, expiryTimer) = (core.worker, core.expiryTimer.take())
            postsNotifications = core.common.values.areNotificationsPosted
            hasHandlers = core.beginHandover()
            queue = hasHandlers ? core.common.values.completionQueue : nil
            if !hasHandlers { core.ending.insert(.handled) }
            rareHandlers = hasHandlers ? nil : core.rareHandlers.take()
        }
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

    /// The handlers have run: forgets all closures, but for those that were set meanwhile.
    private func handlersAreDone() {
        let handlers = advanceDelivery { core in
            core.ending.insert(.handled)
            return core.rareHandlers.take()
        }
        withExtendedLifetime(handlers) {}
    }

    /// Notes that the end has been posted.
    func deliveryDidPostEnd() { advanceDelivery { $0.ending.formUnion(.posted) } }

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

extension Notification.Name {
    /// An operation has begun its work; `object` is the operation. Posted to `NotificationCenter.default` on a serial queue
    /// of the library's own, before the end of the same operation, and after the end of all that it depends on.
    ///
    /// Its text is that of AFNetworking's name.
    public static let networkingOperationDidStart = Notification.Name("com.alamofire.networking.operation.start")

    /// An operation has finished, its results and its error are final; `object` is the operation. Posted on the same
    /// serial queue as its start, in the order in which the operations finished. Its handlers may run before or after.
    ///
    /// Its text is that of AFNetworking's name.
    public static let networkingOperationDidFinish = Notification.Name("com.alamofire.networking.operation.finish")
}

/// The notifications of all operations, in the order in which they are to be posted.
///
/// Observers are a user's code, and run neither on the network thread nor under a lock. The queue is woken once for all
/// that comes until it is done with what it has: to wake it costs more than a post.
enum OperationNotifications {
    private struct Waiting {
        var notifications: [(isEnd: Bool, operation: URLConnectionOperation)] = []
        /// Whether the queue has been told, and will look once more.
        var isNoticed = false
    }

    private static let waiting = ContendedLock(Waiting())

    /// Posts the notification of a start or an end after those that were posted before.
    static func post(_ isEnd: Bool, of operation: URLConnectionOperation) {
        let isFirst = waiting.withLock { waiting in
            waiting.notifications.append((isEnd, operation))
            defer { waiting.isNoticed = true }
            return !waiting.isNoticed
        }
        if isFirst { CompletionOutbox.post(to: OperationQueues.notifications) { postAll() } }
    }

    private static func postAll() {
        let center = NotificationCenter.default
        while true {
            let taken = waiting.withLock { waiting in
                let taken = waiting.notifications
                waiting.notifications = []
                if taken.isEmpty { waiting.isNoticed = false }
                return taken
            }
            guard !taken.isEmpty else { return }
            for (isEnd, operation) in taken {
                let name: Notification.Name = isEnd ? .networkingOperationDidFinish : .networkingOperationDidStart
                center.post(name: name, object: operation)
            }
        }
    }
}

/// The queues that all operations share.
package enum OperationQueues {
    /// Where response serializers run, and retry handlers of operations without a `completionQueue`.
    package static let processing = DispatchQueue(label: "Convoy.Processing", attributes: .concurrent)

    /// Where `Progress` objects change: Foundation's are not thread-safe, and several may belong to one tree.
    static let progress = DispatchQueue(label: "Convoy.Progress")

    /// Where notifications are posted, one at a time.
    static let notifications = DispatchQueue(label: "Convoy.Notifications")
}
