import ConvoySupport
import Foundation
import Synchronization

/// An operation queue with a half that is Foundation's, which starts what only Foundation can start.
protocol FoundationBackedQueue: OperationQueue {
    /// Hands an operation to Foundation's half of the queue, which starts what it gets at once.
    func startInFoundation(_ operation: Operation)
}

/// What the members of a queue that are none of Convoy's tell it.
protocol ForeignScheduler: AnyObject, Sendable {
    func foreignDidBecomeReady(_ member: ForeignMember)
    func foreignDidFinish(_ member: ForeignMember)
    /// The operation has got a slot, and is not ready.
    func giveBack(by member: ForeignMember)
}

/// An operation that is none of Convoy's, as a member of a ``RequestOperationQueue``.
///
/// Foundation's own code starts it: it alone can set the private state that `Operation.start()`
/// insists on. A ready one is handed to Foundation's half of the queue when it gets a slot. One that
/// is not ready waits in a ``ForeignLobby``.
final class ForeignMember: @unchecked Sendable {
    private struct Hooks {
        var lobby: ForeignLobby?
        var watcher: DependencyWatcher?
        var hasFinished = false
    }

    let operation: Operation
    private let queue: any FoundationBackedQueue
    private let scheduler: any ForeignScheduler
    /// Whether it needed no lobby when it was added.
    private let wasReady: Bool
    private let hooks = Locked(Hooks())

    /// The place in the queue. Read and written by the queue only, under its lock.
    var queueIndex: Int32 = -1

    init(
        _ operation: Operation, in queue: any FoundationBackedQueue, of scheduler: any ForeignScheduler, isReady: Bool
    ) {
        self.operation = operation
        self.queue = queue
        self.scheduler = scheduler
        wasReady = isReady
    }

    /// Starts to watch for the end of an operation that is ready.
    func watch() {
        let watcher = DependencyWatcher(watched: operation) { [self] _ in finish() }
        guard keep({ $0.watcher = watcher }) else { return }
        watcher.watch()
    }

    /// Lets an operation that is not ready wait, without a slot, until it is.
    func waitInLobby() {
        makeLobby()?.enter(operation)
    }

    private func makeLobby() -> ForeignLobby? {
        let lobby = ForeignLobby(for: self, in: queue)
        return keep({ $0.lobby = lobby }) ? lobby : nil
    }

    /// Starts the operation, which has got a slot.
    func begin() {
        if operation.isFinished { return finish() }
        if let lobby = hooks.withLock({ $0.lobby }) { return lobby.open() }
        if operation.isReady { return queue.startInFoundation(operation) }
        // In this order: once the slot is given back, whoever finds the operation must find the lobby too, and what
        // the lobby announces must not come before.
        let lobby = makeLobby()
        scheduler.giveBack(by: self)
        lobby?.enter(operation)
    }

    /// Tells the queue that the operation is ready. Foundation starts it as soon as the lobby is opened.
    func becomeReady() {
        scheduler.foreignDidBecomeReady(self)
    }

    /// Tells the queue again: after it has taken the operation out of its lanes, or when it was cancelled.
    func repeatReadiness() {
        // One that is only on its way into a lobby will be announced from there.
        let isKnownReady = hooks.withLock { $0.lobby?.hasAnnounced ?? wasReady }
        if isKnownReady { becomeReady() }
    }

    /// Tells the queue that the operation has finished. Only the first call counts.
    func finish() {
        let released: Hooks? = hooks.withLock { hooks in
            guard !hooks.hasFinished else { return nil }
            let released = hooks
            hooks = Hooks(hasFinished: true)
            return released
        }
        guard let released else { return }
        scheduler.foreignDidFinish(self)
        released.lobby?.close()
        trimDependencies()
    }

    private func keep(_ change: (inout Hooks) -> Void) -> Bool {
        hooks.withLock { hooks in
            guard !hooks.hasFinished else { return false }
            change(&hooks)
            return true
        }
    }

    /// Cuts the operation off from its dependencies, for two reasons.
    ///
    /// Foundation keeps finished dependencies for ever, and releases a long chain of them by recursion
    /// until the stack ends. In a chain each has few; a long list is left alone, as removing from it is slow.
    ///
    /// A cancelled operation may be over, and gone, before its dependencies have finished. They would
    /// then touch it through the unretained pointer that Foundation gave them; so it must go, however long the list.
    private func trimDependencies() {
        var dependencies = operation.dependencies
        guard !dependencies.isEmpty, dependencies.count <= 4 || operation.isCancelled else { return }
        for dependency in dependencies { operation.removeDependency(dependency) }
        DeferredRelease.release(&dependencies)
    }
}
