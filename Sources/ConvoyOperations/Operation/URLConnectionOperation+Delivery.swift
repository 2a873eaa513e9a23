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
        if onlookers.contains(.completionGroup) { core.withLock { $0.enterCompletionGroup() } }
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
            core.isFinished = true
            return Delivery(&core)
        }
        withExtendedLifetime((end.phase, end.rareHandlers)) {}
        end.expiryTimer?.cancel()
        end.wait?.end()
        // Its sink holds an open file.
        end.attempt?.discard()
        end.worker?.end(self)
        if onlookers.contains(.progress) { progressReport.finish(of: self) }
        if end.settings.postsNotifications { OperationNotifications.post(true, of: self) }
        if end.hasHandlers {
            CompletionOutbox.post(self, to: end.settings.completionQueue ?? .main)
        } else {
            hasNearlyDelivered.store(true, ordering: .sequentiallyConsistent)
        }
    }

    /// What is taken out of an operation that has finished, under one lock.
    private struct Delivery {
        let attempt: Attempt?
        let wait: AttemptWait?
        let phase: AttemptPhase?
        let worker: (any OperationWorker)?
        let expiryTimer: (any ClockTimer)?
        let settings: PreparedSettings
        let hasHandlers: Bool
        /// Those that are never called, if no handler waits to be called before them.
        let rareHandlers: OperationCore.RareHandlers?

        init(_ core: inout OperationCore) {
            attempt = core.takeAttempt()
            (wait, phase) = (attempt?.wait.take(), attempt?.phase.end())
            (worker, expiryTimer) = (core.worker, core.expiryTimer.take())
            settings = core.common.prepared
            hasHandlers = core.beginHandover()
            core.areHandlersDone = !hasHandlers
            rareHandlers = hasHandlers ? nil : core.rareHandlers.take()
        }
    }

    /// Calls the handlers. They are taken out first, so that none is called twice.
    package func runHandedOver() {
        let hasOutcome = hasOutcome
        let (handlers, failure, object, data) = core.withLock { core in
            (core.takeHandlers(), core.error, core.object, core.data)
        }
        if handlers.success != nil || handlers.failure != nil, let operation = self as? HTTPRequestOperation {
            if let error = hasOutcome ? failure : error {
                handlers.failure?(operation, error)
            } else if let success = handlers.success {
                success(operation, operation.object(object, of: data))
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
            return (old, core.beginHandover() ? core.common.prepared.completionQueue ?? .main : nil)
        }
        // What they hold may run a user's code when it is let go of: not under the lock.
        withExtendedLifetime(old) {}
        if let queue { CompletionOutbox.post(self, to: queue) }
    }

    /// The handlers have run: forgets all closures, but for those that were set meanwhile.
    ///
    /// Handlers that are set after the end may run after the delivery.
    private func handlersAreDone() {
        let (handlers, delivered) = core.withLock { core in
            defer { core.areHandlersDone = true }
            let isLast = !core.areHandlersDone && isLastStepOfDelivery
            return (core.rareHandlers.take(), isLast ? core.deliver() : nil)
        }
        withExtendedLifetime(handlers) {}
        delivered?.tell()
    }

    /// Notes that the end has been posted.
    func deliveryDidPostEnd() {
        if isLastStepOfDelivery { core.withLock { $0.deliver() }.tell() }
    }

    /// Makes one of the two steps that the delivery consists of: the handlers have run, and the end is posted. True for the
    /// one that comes last.
    private var isLastStepOfDelivery: Bool { hasNearlyDelivered.exchange(true, ordering: .sequentiallyConsistent) }
}

/// Those who wait for the delivery.
private struct Delivered: Sendable {
    let hooks: [@Sendable () -> Void]
    let group: DispatchGroup?

    func tell() {
        for hook in hooks { hook() }
        group?.leave()
    }
}

extension OperationCore {
    /// The delivery is over. Returns those who wait for that.
    fileprivate mutating func deliver() -> Delivered {
        isDelivered = true
        defer { hooks = [] }
        return Delivered(hooks: hooks, group: enteredGroup.take())
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
    private typealias Entry = (isEnd: Bool, operation: URLConnectionOperation)

    private static let waiting = ContendedLock<[Entry]>([])
    /// How many are waiting or being posted.
    private static let count = Atomic<Int>(0)
    private static let poster = Poster()

    /// Posts the notification of a start or an end after those that were posted before.
    static func post(_ isEnd: Bool, of operation: URLConnectionOperation) {
        waiting.withLock { $0.append((isEnd, operation)) }
        let isFirst = count.add(1, ordering: .sequentiallyConsistent).oldValue == 0
        if isFirst { CompletionOutbox.post(to: OperationQueues.notifications) { poster.postAll() } }
    }

    /// Posts them, on the queue of the notifications.
    private final class Poster: @unchecked Sendable {
        /// Keeps its memory, so that most posts allocate nothing. Used on that queue only.
        @exclusivity(unchecked) private var taken: [Entry] = []

        /// No more memory is kept than for so many.
        private static let mostKept = 1024

        func postAll() {
            let center = NotificationCenter.default
            var left = 0
            repeat {
                waiting.withLock { swap(&$0, &taken) }
                for (isEnd, operation) in taken {
                    let name: Notification.Name = isEnd ? .networkingOperationDidFinish : .networkingOperationDidStart
                    center.post(name: name, object: operation)
                }
                let posted = taken.count
                if posted > Self.mostKept { taken = [] } else { taken.removeAll(keepingCapacity: true) }
                left = count.subtract(posted, ordering: .sequentiallyConsistent).newValue
            } while left > 0
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
