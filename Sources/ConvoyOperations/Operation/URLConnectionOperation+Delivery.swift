import ConvoySupport
import ConvoyTransport
import Dispatch
import Foundation
import FoundationNetworking
import Synchronization

/// Methods that finish an operation: they call its handlers and release its resources.
extension URLConnectionOperation: HandoverTask {
    /// Runs the block once the operation has finished, the notification was posted, and the handlers have run;
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
        // Close the open file of the sink now.
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
        /// Handlers that are never called, unless a completion handler is pending.
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
        // When `callHandlers` returns, the operation has also released the closures.
        let isFirst = callHandlers()
        if isFirst { didDeliver(.handlersRan) }
    }

    /// Calls the completion handlers. All handlers are taken out first, so that none is called twice. Completion
    /// handlers that are set in the meantime are also called, possibly after the delivery.
    ///
    /// - Returns: Whether this was the first call.
    private func callHandlers() -> Bool {
        let hasOutcome = hasOutcome
        let (handlers, failure, object, data, isFirst, rare) = core.withLock { core in
            defer { core.areHandlersDone = true }
            return (
                core.takeHandlers(), core.error, core.object, core.data, !core.areHandlersDone, core.handlers.take()
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

    /// Sets completion handlers. Handlers set after the operation has finished are also called once.
    final func setFinalHandlers(_ set: (inout OperationCore) -> Void) {
        let (old, isLate, queue) = core.withLock { core -> (OperationCore.FinalHandlers, Bool, DispatchQueue?) in
            let old = core.finalHandlers
            set(&core)
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
        core.withLock { $0.takeWaiting() }.tell()
    }
}

/// The hooks and the group that are waiting for the delivery.
private struct Delivered: Sendable {
    let hooks: [@Sendable () -> Void]
    let group: DispatchGroup?

    func tell() {
        for hook in hooks { hook() }
        group?.leave()
    }
}

extension OperationCore {
    /// Takes the hooks and the group to notify when the delivery is complete.
    fileprivate mutating func takeWaiting() -> Delivered {
        defer { hooks = [] }
        return Delivered(hooks: hooks, group: enteredGroup.take())
    }
}

extension Notification.Name {
    /// Posted when an operation has begun its work; `object` is the operation. Posted to `NotificationCenter.default`
    /// on an internal serial queue, before the finish of the same operation and after the finish of all operations that
    /// it depends on.
    ///
    /// The raw value is that of AFNetworking's name. Posted only if the manager or the operation has
    /// `postsNotifications` set.
    public static let networkingOperationDidStart = Notification.Name("com.alamofire.networking.operation.start")

    /// Posted when an operation has finished, with final results and error; `object` is the operation. Posted on the
    /// same serial queue as the start, in the order in which the operations finished. The operation's handlers may run
    /// before or after the notification.
    ///
    /// The raw value is that of AFNetworking's name. Posted only if the manager or the operation has
    /// `postsNotifications` set.
    public static let networkingOperationDidFinish = Notification.Name("com.alamofire.networking.operation.finish")
}

/// The notifications of all operations, in order.
///
/// Observers are user code, and run neither on the network thread nor under a lock. The queue is woken once for all
/// notifications that arrive before it has posted them, because waking it costs more than a post.
enum OperationNotifications {
    private typealias Entry = (name: Notification.Name, operation: URLConnectionOperation)

    private static let waiting = ContendedLock<[Entry]>([])
    /// The number of notifications that are waiting or being posted.
    private static let count = Atomic<Int>(0)
    private static let poster = Poster()

    /// Posts a notification after all earlier ones.
    static func post(_ name: Notification.Name, of operation: URLConnectionOperation) {
        waiting.withLock { $0.append((name, operation)) }
        let isFirst = count.add(1, ordering: .sequentiallyConsistent).oldValue == 0
        if isFirst { CompletionOutbox.post(to: OperationQueues.notifications) { poster.postAll() } }
    }

    /// The object that posts the notifications on their queue.
    private final class Poster: @unchecked Sendable {
        /// The entries being posted, whose memory is reused so that most posts allocate nothing. Used only on the
        /// queue.
        @exclusivity(unchecked) private var taken: [Entry] = []

        /// The maximum number of entries for which memory is kept.
        private static let mostKept = 1024

        func postAll() {
            let center = NotificationCenter.default
            var left = 0
            repeat {
                waiting.withLock { swap(&$0, &taken) }
                for (name, operation) in taken { center.post(name: name, object: operation) }
                let posted = taken.count
                if posted > Self.mostKept { taken = [] } else { taken.removeAll(keepingCapacity: true) }
                left = count.subtract(posted, ordering: .sequentiallyConsistent).newValue
            } while left > 0
        }
    }
}

/// The queues shared by all operations.
package enum OperationQueues {
    /// The queue of response serializers, and of the retry handlers of operations without a `completionQueue`.
    package static let processing = DispatchQueue(label: "Convoy.Processing", attributes: .concurrent)

    /// The queue on which `Progress` objects are updated. It is serial and shared because Foundation's class is not
    /// thread-safe and several objects may belong to one tree.
    static let progress = DispatchQueue(label: "Convoy.Progress")

    /// The queue on which notifications are posted.
    static let notifications = DispatchQueue(label: "Convoy.Notifications")
}

/// The internal queue for operations that are awaited without being in a queue.
package enum AwaitedOperations {
    /// The queue has the limits of a manager's queue, because a thousand awaited operations also need limits.
    private static let queue = RequestOperationQueue.withDefaultLimits(named: "Convoy.Awaited")

    /// Starts an operation and its direct and indirect dependencies, except those that are enqueued or started.
    /// Operations of other classes are not started, because they may be in a queue.
    package static func start(_ operation: ScheduledOperation) {
        guard operation.hasConnections else { return adopt(operation) }
        // The search is iterative and remembers visited operations, because a chain of dependencies may be long or
        // cyclic.
        var seen: Set<ObjectIdentifier> = []
        var left = [operation]
        while let next = left.popLast() {
            guard seen.insert(ObjectIdentifier(next)).inserted, !next.isFinished else { continue }
            adopt(next)
            // An operation that only has to finish does not wait for its dependencies.
            guard !next.endsWithoutWork else { continue }
            for case let dependency as ScheduledOperation in next.dependencies { left.append(dependency) }
        }
    }

    private static func adopt(_ operation: ScheduledOperation) {
        // If another `RequestOperationQueue` claims the operation first, this queue ignores it.
        guard operation.claimForAwaiting() else { return }
        // Use a separate queue for a token refresh, which must not wait for slots held by operations that wait for its
        // token.
        (Authenticator.isRefreshing ? RequestOperationQueue() : queue).addOperation(operation)
    }
}

extension OperationQueue {
    /// Adds an operation, unless it has finished or is in another queue. Foundation's queue would trap in these cases.
    final func addUnlessTaken(_ operation: Operation) {
        guard !operation.isFinished else { return }
        // A `RequestOperationQueue` ignores operations of other queues.
        if self is RequestOperationQueue { return addOperation(operation) }
        if let scheduled = operation as? ScheduledOperation, !scheduled.claimForFoundation() { return }
        addOperation(operation)
    }
}
