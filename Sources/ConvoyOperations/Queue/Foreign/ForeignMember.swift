import ConvoySupport
import ConvoyTransport
import Foundation
import Synchronization

/// An operation queue that is backed by Foundation's, which starts what only Foundation can start.
protocol FoundationBackedQueue: OperationQueue {
    /// Adds an operation to the backing Foundation queue, which starts it at once.
    func startInFoundation(_ operation: Operation)
}

/// Receives the events of a queue's foreign members.
protocol ForeignScheduler: AnyObject, Sendable {
    func foreignDidBecomeReady(_ member: ForeignMember)
    func foreignDidFinish(_ member: ForeignMember)
    /// The operation was given a slot, but is not ready.
    func giveBack(by member: ForeignMember)
}

/// An operation that is not one of Convoy's, as a member of a ``RequestOperationQueue``.
///
/// Foundation must start it, as only Foundation can set the private state that `Operation.start()` requires. When it
/// gets a slot and is ready, it is added to the backing Foundation queue. If it is not ready, it waits in a
/// ``ForeignLobby``.
final class ForeignMember: @unchecked Sendable {
    private struct Hooks {
        var lobby: ForeignLobby?
        var watcher: DependencyWatcher?
        var hasFinished = false
    }

    let operation: Operation
    private let queue: any FoundationBackedQueue
    private let scheduler: any ForeignScheduler
    /// Whether it was ready when it was added, and so needed no lobby.
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
        guard runsUserCode, !isReady else { return }
        for case let dependency as ScheduledOperation in operation.dependencies { dependency.willWakeForeign() }
    }

    /// Whether the operation may be of a user's class.
    private var runsUserCode: Bool { type(of: operation) != BlockOperation.self }

    /// Starts watching for the end of an operation that is ready.
    func watch() {
        let watcher = DependencyWatcher(watched: operation) { [self] _ in finish() }
        guard keep({ $0.watcher = watcher }) else { return }
        watcher.watch()
    }

    /// Lets an operation that is not ready wait, without a slot, until it is ready.
    func waitInLobby() {
        makeLobby()?.enter(operation)
    }

    private func makeLobby() -> ForeignLobby? {
        let lobby = ForeignLobby(for: self, in: queue)
        return keep({ $0.lobby = lobby }) ? lobby : nil
    }

    /// Starts the operation, which has got a slot.
    func begin() {
        // What it answers is a user's code.
        if runsUserCode, NetworkThread.isCurrent { return BlockingWorkers.shared.perform { self.begin() } }
        if operation.isFinished { return finish() }
        if let lobby = hooks.withLock({ $0.lobby }) { return lobby.open() }
        if operation.isReady { return queue.startInFoundation(operation) }
        // In this order: once the slot is given back, the lobby must exist, and it must not report readiness earlier.
        let lobby = makeLobby()
        scheduler.giveBack(by: self)
        lobby?.enter(operation)
    }

    /// Tells the queue that the operation is ready. Foundation starts it as soon as the lobby is opened.
    func becomeReady() {
        scheduler.foreignDidBecomeReady(self)
    }

    /// Tells the queue again that the operation is ready, after the queue took it out of its lanes or it was cancelled.
    func repeatReadiness() {
        // If it is still entering a lobby, the lobby will report it.
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

    /// Removes the operation's dependencies, for two reasons.
    ///
    /// Foundation keeps finished dependencies forever, and releasing a long chain of them recurses until the stack
    /// overflows. In a chain each operation has few; a long list is kept, as removing from it is slow.
    ///
    /// A cancelled operation may be released before its dependencies have finished. They would then use the unretained
    /// pointer to it that Foundation gave them, so its list is always emptied, however long.
    private func trimDependencies() {
        var dependencies = operation.dependencies
        guard !dependencies.isEmpty, dependencies.count <= 4 || operation.isCancelled else { return }
        for dependency in dependencies { operation.removeDependency(dependency) }
        DeferredRelease.release(&dependencies)
    }
}
