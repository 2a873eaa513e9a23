import ConvoySupport
import Foundation
import Synchronization

/// The connections of an operation to other operations: its dependencies and dependents. Most operations need no such
/// object.
///
/// An operation's dependencies retain its connections, not the operation itself, which may be released without ever
/// running. A weak reference to the operation would also work, but slows down every retain and release of the object,
/// of which an operation has about fifty in its lifetime. Instead, the connections use a plain reference while a
/// scheduler is certain to hold the operation.
final class OperationConnections: @unchecked Sendable {
    private struct Lists {
        var dependencies = DependencyLinks()
        var dependents = DependentList<OperationConnections>()
        var reason: (any Error)?
        /// The operation, while a scheduler holds it: until its end is posted.
        var held: Unmanaged<ScheduledOperation>?
        /// The operation, if a Foundation queue may hold it, because `isReady` was evaluated.
        weak var observed: ScheduledOperation?
        /// Whether the end is being posted, or the operation has been released.
        var isOver = false
    }

    private let lists = Locked(Lists())
    private let unfinished = Atomic<Int>(0)
    private let isObserved = Atomic<Bool>(false)
    /// A copy of `isOver` that is read without this lock, which must not be taken while another operation's lock is
    /// held.
    private let isGone = Atomic<Bool>(false)

    /// Whether all dependencies have finished.
    var areDependenciesFinished: Bool { unfinished.load(ordering: .sequentiallyConsistent) == 0 }

    var dependencies: [Operation] { lists.withLock { $0.dependencies.operations } }

    /// The reason why a queue or a failed dependency cancelled the operation. The first reason is kept.
    var cancellationReason: (any Error)? { lists.withLock { $0.reason } }

    func noteCancellation(because reason: any Error) {
        lists.withLock { if $0.reason == nil { $0.reason = reason } }
    }

    // MARK: The operation

    /// Records that a scheduler holds the operation until its end and must be notified when it becomes ready.
    func beHeld(_ operation: ScheduledOperation) {
        lists.withLock { if !$0.isOver { $0.held = .passUnretained(operation) } }
    }

    /// Records that `isReady` was evaluated, so that it must be posted when the operation becomes ready.
    func beObserved(_ operation: ScheduledOperation) {
        guard !isObserved.load(ordering: .acquiring) else { return }
        lists.withLock { if !$0.isOver { $0.observed = operation } }
        isObserved.store(true, ordering: .releasing)
    }

    // MARK: Dependencies

    /// Adds an unfinished dependency. Returns its position, and whether all earlier dependencies had finished; nil for
    /// a duplicate, or if the operation is over.
    func add(_ dependency: Operation) -> (position: Int, wasReady: Bool)? {
        lists.withLock { lists in
            guard !lists.isOver, let position = lists.dependencies.append(dependency) else { return nil }
            return (position, unfinished.add(1, ordering: .sequentiallyConsistent).oldValue == 0)
        }
    }

    /// Stores the watcher of a dependency. Returns false if the dependency has finished or was removed in the meantime.
    func attach(_ watcher: DependencyWatcher, to dependency: Operation, near position: Int) -> Bool {
        lists.withLock { $0.dependencies.attach(watcher, to: dependency, near: position) }
    }

    /// Removes a dependency. Returns whether it was the last unfinished one.
    func remove(_ dependency: Operation) -> Bool {
        let (watcher, isLast) = lists.withLock { lists in
            guard let removed = lists.dependencies.remove(dependency) else { return (DependencyWatcher?.none, false) }
            return (removed.watcher, removed.wasUnfinished && countAsFinished())
        }
        watcher?.stop()
        return isLast
    }

    /// Marks a dependency as finished. Returns the operation if this was its last unfinished dependency and a queue
    /// must be notified.
    func finish(_ dependency: Operation, near position: Int) -> ScheduledOperation? {
        let (watcher, operation) = lists.withLock { lists -> (DependencyWatcher?, ScheduledOperation?) in
            guard let watcher = lists.dependencies.finish(dependency, near: position) else { return (nil, nil) }
            guard countAsFinished() else { return (watcher, nil) }
            // The operation is retained under the lock, which the scheduler must take before it releases the operation.
            return (watcher, lists.held?.takeUnretainedValue() ?? lists.observed)
        }
        withExtendedLifetime(watcher) {}
        return operation
    }

    private func countAsFinished() -> Bool {
        unfinished.subtract(1, ordering: .sequentiallyConsistent).newValue == 0
    }

    /// The dependencies that have not finished.
    var unfinishedDependencies: [Operation] { lists.withLock { $0.dependencies.unfinished } }

    // MARK: Dependents

    /// The operations in queues that depend on this one.
    var dependentsInQueues: [ScheduledOperation] {
        let dependents = lists.withLock { $0.dependents }
        var operations: [ScheduledOperation] = []
        dependents.forEach { if let operation = $0.object.heldOperation { operations.append(operation) } }
        return operations
    }

    /// The operation, while a scheduler holds it. The reference is retained under the lock, which the scheduler must
    /// take before it releases the operation.
    private var heldOperation: ScheduledOperation? { lists.withLock { $0.held?.takeUnretainedValue() } }

    /// Adds a dependent. Returns false if this operation is over.
    ///
    /// - Parameter isOver: A closure that returns whether this operation is over. It is evaluated under the lock,
    ///   because the operation may have ended before it had connections.
    func addDependent(_ dependent: OperationConnections, position: Int, unless isOver: () -> Bool) -> Bool {
        lists.withLock { lists in
            guard !lists.isOver, !isOver() else { return false }
            lists.dependents.append(dependent, position: position) { $0.isGone.load(ordering: .relaxed) }
            return true
        }
    }

    // MARK: The end

    /// Ends the connections, when the operation's end is being posted or the operation is being released. Releases the
    /// dependencies, and returns the dependents.
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

    /// Records that the scheduler releases the operation.
    func letGo() { lists.withLock { $0.held = nil } }
}

/// A watcher that detects for a ``ScheduledOperation`` that a dependency of another class has finished.
///
/// Foundation on Linux has no key-value observing. But when an operation finishes, Foundation evaluates `isReady` of
/// every operation that depends on it. So the watcher depends on the watched operation, is never enqueued, and detects
/// the end in its own `isReady`.
final class DependencyWatcher: Operation, @unchecked Sendable {
    private let hasFired = Atomic<Bool>(false)
    private let watched: Operation
    private let whenFinished: @Sendable (Operation) -> Void

    /// - Parameter whenFinished: The closure called once, on the thread on which `watched` finishes, or in ``watch()``.
    init(watched: Operation, whenFinished: @escaping @Sendable (Operation) -> Void) {
        self.watched = watched
        self.whenFinished = whenFinished
        super.init()
    }

    /// Starts watching. Calls back immediately if the operation has already finished.
    func watch() {
        super.addDependency(watched)
        // Otherwise, the end of an operation that does not post it would never be detected.
        if watched.isFinished { fire() }
        // If the watcher was stopped in the meantime or has just fired, Foundation must drop its pointer to it.
        if hasFired.load(ordering: .sequentiallyConsistent) { super.removeDependency(watched) }
    }

    /// Stops watching. Required before the last reference is released, unless the watcher has fired: Foundation keeps
    /// an unretained pointer to it.
    func stop() {
        hasFired.store(true, ordering: .sequentiallyConsistent)
        super.removeDependency(watched)
    }

    override var isReady: Bool {
        let isReady = super.isReady
        if isReady { fire() }
        return isReady
    }

    private func fire() {
        guard !hasFired.exchange(true, ordering: .sequentiallyConsistent) else { return }
        whenFinished(watched)
    }
}

/// An observer that reports the end of an operation whose class overrides `start()` and therefore posts `isFinished`
/// itself. Only Foundation receives that post, and wakes the operation's dependents.
final class FinishObserver: Sendable {
    /// The watcher, kept until the end, because Foundation does not retain it.
    private let watcher = Locked<DependencyWatcher?>(nil)

    private init() {}

    /// Watches an operation that has been started. Its end is reported to its queue and its dependents, immediately if
    /// it has already finished.
    static func begin(on operation: ScheduledOperation) {
        let watch = FinishObserver()
        let watcher = DependencyWatcher(watched: operation) { operation in
            (operation as? ScheduledOperation)?.executionDidFinish()
            _ = watch.watcher.withLock { $0.take() }
        }
        watch.watcher.withLock { $0 = watcher }
        watcher.watch()
    }
}

/// The `completionBlock` of an operation. Foundation never releases its own block, and does not call a block that is
/// set after the end.
final class CompletionBlock: Sendable {
    /// A box for the closure. A closure stored directly would be wrapped again each time it is read.
    private struct Stored { let call: @Sendable () -> Void }

    private let stored = Locked<Stored?>(nil)

    var block: (@Sendable () -> Void)? {
        get { stored.withLock { $0 }?.call }
        set {
            let new = newValue.map(Stored.init(call:))
            let old = stored.withLock { stored in
                defer { stored = new }
                return stored
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Submits the block, if any, to a global queue, as Foundation does, and releases it.
    func run() {
        guard let taken = stored.withLock({ $0.take() }) else { return }
        DispatchQueue.global().submit(taken.call)
    }
}
