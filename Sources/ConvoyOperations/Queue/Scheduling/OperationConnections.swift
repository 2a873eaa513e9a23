import ConvoySupport
import Foundation
import Synchronization

/// How an operation is connected with others: what it waits for, and what waits for it. Most operations have no
/// connections.
///
/// An operation's dependencies hold its connections, and not the operation, which may be dropped before it ever runs.
/// Weak references would do too, but an object with a weak reference is slower to retain and release, and that happens
/// some fifty times in an operation's life. Instead the connections know when the operation is certain to exist: while
/// a scheduler holds it.
final class OperationConnections: @unchecked Sendable {
    private struct Lists {
        var dependencies = DependencyLinks()
        var dependents = DependentList<OperationConnections>()
        var reason: (any Error)?
        /// The operation, while a scheduler holds it, which it does until its end is posted.
        var held: Unmanaged<ScheduledOperation>?
        /// The operation, if a queue of Foundation's may hold it: one that has asked whether it is ready.
        weak var observed: ScheduledOperation?
        /// The end is being posted, or the operation is gone.
        var isOver = false
    }

    private let lists = Locked(Lists())
    private let unfinished = Atomic<Int>(0)
    private let isObserved = Atomic<Bool>(false)
    /// As `isOver`, for those who cannot take the lock, as they hold another operation's.
    private let isGone = Atomic<Bool>(false)

    /// Whether nothing is left to wait for.
    var areDependenciesFinished: Bool { unfinished.load(ordering: .sequentiallyConsistent) == 0 }

    var dependencies: [Operation] { lists.withLock { $0.dependencies.operations } }

    /// Why a queue has cancelled the operation. The first reason stays.
    var cancellationReason: (any Error)? { lists.withLock { $0.reason } }

    func noteCancellation(because reason: any Error) {
        lists.withLock { if $0.reason == nil { $0.reason = reason } }
    }

    // MARK: Who has the operation

    /// A scheduler holds the operation from now on until its end, and is told when it becomes ready.
    func beHeld(_ operation: ScheduledOperation) {
        lists.withLock { if !$0.isOver { $0.held = .passUnretained(operation) } }
    }

    /// Somebody has asked whether the operation is ready, and is to be told when it becomes so.
    func beObserved(_ operation: ScheduledOperation) {
        guard !isObserved.load(ordering: .acquiring) else { return }
        lists.withLock { if !$0.isOver { $0.observed = operation } }
        isObserved.store(true, ordering: .releasing)
    }

    // MARK: Dependencies

    /// Adds a dependency that has not finished. Nil if it is there already; otherwise its position, and whether there was
    /// nothing to wait for.
    func add(_ dependency: Operation) -> (position: Int, wasReady: Bool)? {
        lists.withLock { lists in
            guard !lists.isOver, let position = lists.dependencies.append(dependency) else { return nil }
            return (position, unfinished.add(1, ordering: .sequentiallyConsistent).oldValue == 0)
        }
    }

    /// Keeps the watcher of a dependency. False if it has finished or was removed meanwhile.
    func attach(_ watcher: DependencyWatcher, to dependency: Operation, near position: Int) -> Bool {
        lists.withLock { $0.dependencies.attach(watcher, to: dependency, near: position) }
    }

    /// Removes a dependency. True if it was the last to wait for.
    func remove(_ dependency: Operation) -> Bool {
        let (watcher, isLast) = lists.withLock { lists in
            guard let removed = lists.dependencies.remove(dependency) else { return (DependencyWatcher?.none, false) }
            return (removed.watcher, removed.wasUnfinished && countAsFinished())
        }
        watcher?.stop()
        return isLast
    }

    /// A dependency has finished. The operation, if it was the last to wait for and somebody is to be told.
    func finish(_ dependency: Operation, near position: Int) -> ScheduledOperation? {
        let (watcher, operation) = lists.withLock { lists -> (DependencyWatcher?, ScheduledOperation?) in
            guard let watcher = lists.dependencies.finish(dependency, near: position) else { return (nil, nil) }
            guard countAsFinished() else { return (watcher, nil) }
            // Retained while the lock is held, before which the scheduler does not let it go.
            return (watcher, lists.held?.takeUnretainedValue() ?? lists.observed)
        }
        withExtendedLifetime(watcher) {}
        return operation
    }

    private func countAsFinished() -> Bool {
        unfinished.subtract(1, ordering: .sequentiallyConsistent).newValue == 0
    }

    // MARK: Dependents

    /// Lets another operation wait for this one. False if this one is over.
    ///
    /// - Parameter isOver: asked under the lock, since the end may have come before there were these connections.
    func addDependent(_ dependent: OperationConnections, position: Int, unless isOver: () -> Bool) -> Bool {
        lists.withLock { lists in
            guard !lists.isOver, !isOver() else { return false }
            lists.dependents.append(dependent, position: position) { $0.isGone.load(ordering: .relaxed) }
            return true
        }
    }

    // MARK: The end

    /// The end is being posted, or the operation is gone. Returns what waits for it, and forgets what it waits for.
    func end() -> DependentList<OperationConnections> {
        var dependencies = DependencyLinks.Contents()
        let dependents = lists.withLock { lists in
            lists.isOver = true
            lists.held = nil
            lists.observed = nil
            dependencies = lists.dependencies.removeAll()
            return lists.dependents.removeAll()
        }
        isGone.store(true, ordering: .relaxed)
        dependencies.release()
        return dependents
    }

    /// The scheduler lets the operation go.
    func letGo() { lists.withLock { $0.held = nil } }
}
