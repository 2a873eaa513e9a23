import ConvoySupport
import ConvoyTransport
import Dispatch
import Foundation
import FoundationNetworking
import Synchronization

/// Ends an operation: calls its handlers and releases everything.
extension URLConnectionOperation: HandoverTask {
    /// Runs the block once the operation has finished, that was posted, and its handlers have run; at once if all of
    /// that is over. For the library only: the block must be short, and may run on the network thread.
    package final func whenDelivered(_ hook: @escaping @Sendable () -> Void) {
        // Before the look: the last step either finds this mark, or was seen.
        flags.insert(.delivery)
        let isOver = core.withLock { core in
            let isOver = isDelivered
            if !isOver { core.hooks.append(hook) }
            return isOver
        }
        if isOver { hook() }
    }

    /// Enters the completion group, once. From then on the group waits for the operation's handlers.
    package final func enterCompletionGroup() {
        if flags.contains(.completionGroup) { core.withLock { $0.enterCompletionGroup() } }
    }

    /// Submits the handlers to their queue, before the end is posted, as that may let other operations finish. So
    /// handlers on one queue run in the order in which the operations finished, and a dependent's after its
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
        if let rare = end.rare {
            rare.expiryTimer?.cancel()
            rare.wait?.end()
        }
        // Its sink holds an open file.
        end.attempt?.discard()
        end.rare?.worker?.end(self)
        if flags.contains(.progress) { progressReport.finish(of: self) }
        if end.settings.postsNotifications { OperationNotifications.post(.finish, of: self) }
        if end.hasHandlers {
            CompletionOutbox.post(self, to: end.settings.completionQueue ?? .mainForHandlers)
        } else {
            deliverySteps.store(1, ordering: .sequentiallyConsistent)
        }
    }

    /// What is taken out of a finished operation, under one lock.
    private struct Delivery {
        let attempt: Attempt?
        let settings: PreparedSettings
        let hasHandlers: Bool
        let rare: Rare?

        /// What few operations have at their end. What is not used is released without the lock.
        struct Rare {
            let wait: AttemptWait?
            let phase: AttemptPhase?
            let worker: (any OperationWorker)?
            let expiryTimer: (any ClockTimer)?
            /// Handlers that are never called, if no other handler waits.
            let rareHandlers: OperationCore.RareHandlers?
        }

        init(_ core: inout OperationCore) {
            attempt = core.takeAttempt()
            settings = core.common.prepared
            hasHandlers = core.beginHandover()
            core.areHandlersDone = !hasHandlers
            let (wait, phase) = (attempt?.wait.take(), attempt?.phase.end())
            let rareHandlers = hasHandlers ? nil : core.rareHandlers.take()
            let isRare = core.hasExtras || wait != nil || phase != nil || rareHandlers != nil
            rare =
                isRare
                ? Rare(
                    wait: wait, phase: phase, worker: core.worker, expiryTimer: core.expiryTimer.take(),
                    rareHandlers: rareHandlers) : nil
        }
    }

    package func runHandedOver() {
        // When this returns, the operation has released the closures, too.
        let isFirst = callHandlers()
        if isFirst { didMakeLastStep() }
    }

    /// Calls the handlers. They are taken out first, so that none is called twice, and those of the work with them. Handlers
    /// of the end that are set meanwhile are called as well, perhaps after the delivery.
    ///
    /// - Returns: whether these were the first.
    private func callHandlers() -> Bool {
        let hasOutcome = hasOutcome
        let (handlers, failure, object, data, isFirst, rare) = core.withLock { core in
            defer { core.areHandlersDone = true }
            return (
                core.takeHandlers(), core.error, core.object, core.data, !core.areHandlersDone, core.rareHandlers.take()
            )
        }
        if handlers.success != nil || handlers.failure != nil, let operation = self as? HTTPRequestOperation {
            if let error = hasOutcome ? failure : error {
                handlers.failure?(operation, error)
            } else if let success = handlers.success {
                success(operation, operation.object(object, of: data))
            }
        }
        handlers.completion?()
        withExtendedLifetime(rare) {}
        return isFirst
    }

    /// Sets the handlers of the end. Those that are set later are called once, too.
    final func setFinalHandlers(_ set: (inout OperationCore) -> Void) {
        let (old, isLate, queue) = core.withLock { core -> (OperationCore.FinalHandlers, Bool, DispatchQueue?) in
            let old = core.finalHandlers
            set(&core)
            return (old, core.beginHandover(), core.common.prepared.completionQueue)
        }
        // Releasing them may run user code, which must not run under the lock.
        withExtendedLifetime(old) {}
        if isLate { CompletionOutbox.post(self, to: queue ?? .mainForHandlers) }
    }

    /// Notes that the end has been posted.
    func deliveryDidPostEnd() { didMakeLastStep() }

    private static let stepsOfDelivery = 2

    /// Whether the handlers have run and the end has been posted, so that dependents and queues know of it.
    final var isDelivered: Bool { deliverySteps.load(ordering: .sequentiallyConsistent) == Self.stepsOfDelivery }

    /// Notes one of the two steps that the delivery consists of: the handlers have run, and the end is posted. With the one
    /// that comes last, it is over.
    private func didMakeLastStep() {
        guard deliverySteps.add(1, ordering: .sequentiallyConsistent).newValue == Self.stepsOfDelivery else { return }
        guard flags.contains(.delivery) || flags.contains(.completionGroup) else { return }
        core.withLock { $0.takeWaiting() }.tell()
    }
}

/// What waits for the delivery.
private struct Delivered: Sendable {
    let hooks: [@Sendable () -> Void]
    let group: DispatchGroup?

    func tell() {
        for hook in hooks { hook() }
        group?.leave()
    }
}

extension OperationCore {
    /// Those who wait for the delivery, which is over.
    fileprivate mutating func takeWaiting() -> Delivered {
        defer { hooks = [] }
        return Delivered(hooks: hooks, group: enteredGroup.take())
    }
}

extension Notification.Name {
    /// An operation has begun its work; `object` is the operation. Posted to `NotificationCenter.default` on a serial queue
    /// of the library's own, before the end of the same operation, and after the end of all that it depends on.
    ///
    /// Its text is that of AFNetworking's name. Operations post it from when the program reads this name or
    /// ``networkingOperationDidFinish`` for the first time, as every observer does that names what it observes. Before that
    /// they post nothing: an observer of all names, or one that spells the text itself, has to read one of the two names first.
    public static var networkingOperationDidStart: Notification.Name { OperationNotifications.read(.start) }

    /// An operation has finished, its results and its error are final; `object` is the operation. Posted on the same
    /// serial queue as its start, in the order in which the operations finished. Its handlers may run before or after.
    ///
    /// Its text is that of AFNetworking's name. See ``networkingOperationDidStart`` for when operations begin to post it.
    public static var networkingOperationDidFinish: Notification.Name { OperationNotifications.read(.finish) }
}

/// The notifications of all operations, in order.
///
/// Observers are user code, and run neither on the network thread nor under a lock. The queue is woken once for all
/// notifications that arrive before it has posted them: waking it costs more than a post.
///
/// A post costs as much as all else that an operation does at its end, with or without an observer. So nothing is posted
/// before the program has read one of the names.
enum OperationNotifications {
    /// What happens to an operation.
    enum Occasion: String {
        case start = "com.alamofire.networking.operation.start"
        case finish = "com.alamofire.networking.operation.finish"

        fileprivate var name: Notification.Name { Notification.Name(rawValue) }
    }

    private typealias Entry = (occasion: Occasion, operation: URLConnectionOperation)

    private static let mayHaveObservers = Atomic<Bool>(false)

    private static let waiting = ContendedLock<[Entry]>([])
    /// How many are waiting or being posted.
    private static let count = Atomic<Int>(0)
    private static let poster = Poster()

    /// The name, for one who may observe it.
    fileprivate static func read(_ occasion: Occasion) -> Notification.Name {
        mayHaveObservers.store(true, ordering: .sequentiallyConsistent)
        return occasion.name
    }

    /// Posts a notification after those that were posted before, if one may be observed.
    static func post(_ occasion: Occasion, of operation: URLConnectionOperation) {
        guard mayHaveObservers.load(ordering: .relaxed) else { return }
        waiting.withLock { $0.append((occasion, operation)) }
        let isFirst = count.add(1, ordering: .sequentiallyConsistent).oldValue == 0
        if isFirst { CompletionOutbox.post(to: OperationQueues.notifications) { poster.postAll() } }
    }

    /// Posts the notifications, on their queue.
    private final class Poster: @unchecked Sendable {
        /// Keeps its memory, so that most posts allocate nothing. Used on that queue only.
        @exclusivity(unchecked) private var taken: [Entry] = []

        /// Memory is kept for no more than this number.
        private static let mostKept = 1024

        func postAll() {
            let center = NotificationCenter.default
            var left = 0
            repeat {
                waiting.withLock { swap(&$0, &taken) }
                for (occasion, operation) in taken { center.post(name: occasion.name, object: operation) }
                let posted = taken.count
                if posted > Self.mostKept { taken = [] } else { taken.removeAll(keepingCapacity: true) }
                left = count.subtract(posted, ordering: .sequentiallyConsistent).newValue
            } while left > 0
        }
    }
}

/// The queues that all operations share.
package enum OperationQueues {
    /// The queue of response serializers, and of retry handlers of operations without a `completionQueue`.
    package static let processing = DispatchQueue(label: "Convoy.Processing", attributes: .concurrent)

    /// The queue on which `Progress` objects change: Foundation's are not thread-safe, and several may belong to one
    /// tree.
    static let progress = DispatchQueue(label: "Convoy.Progress")

    /// The queue on which notifications are posted.
    static let notifications = DispatchQueue(label: "Convoy.Notifications")
}

/// Runs operations that are awaited outside any queue, in a queue of the library.
package enum AwaitedOperations {
    /// With the limits of a manager's queue, which a thousand awaited operations need as well.
    private static let queue = RequestOperationQueue.withDefaultLimits(named: "Convoy.Awaited")

    /// Starts an operation and all that it waits for, except those that are enqueued or were started. Only Convoy's
    /// operations are started: others may be in a queue.
    package static func start(_ operation: ScheduledOperation) {
        guard operation.hasConnections else { return adopt(operation) }
        // Step by step: a chain may be long, and may be a circle.
        var seen: Set<ObjectIdentifier> = []
        var left = [operation]
        while let next = left.popLast() {
            guard seen.insert(ObjectIdentifier(next)).inserted, !next.isFinished else { continue }
            adopt(next)
            // An operation that only has to finish waits for nothing.
            guard !next.endsWithoutWork else { continue }
            for case let dependency as ScheduledOperation in next.dependencies { left.append(dependency) }
        }
    }

    private static func adopt(_ operation: ScheduledOperation) {
        // Another `RequestOperationQueue` may be first even now: then it has the operation, and this one ignores it.
        guard operation.claimForAwaiting() else { return }
        // A refresh must not wait for operations that wait for its token.
        (Authenticator.isRefreshing ? RequestOperationQueue() : queue).addOperation(operation)
    }
}

extension OperationQueue {
    /// Adds an operation, unless it has finished or is in another queue, in which case Foundation's queue would trap.
    final func addUnlessTaken(_ operation: Operation) {
        guard !operation.isFinished else { return }
        // It ignores operations of other queues.
        if self is RequestOperationQueue { return addOperation(operation) }
        if let scheduled = operation as? ScheduledOperation, !scheduled.claimForFoundation() { return }
        addOperation(operation)
    }
}
