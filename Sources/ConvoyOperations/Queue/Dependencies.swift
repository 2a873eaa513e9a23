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
        var dependents = DependentList()
        var reason: (any Error)?
        /// The operation, while a scheduler holds it: until its end is posted.
        var held: Unmanaged<ScheduledOperation>?
        /// The operation, if a Foundation queue may hold it, because `isReady` was evaluated.
        weak var observed: ScheduledOperation?
        /// The operation, which the caller must retain under the lock, because the scheduler takes the lock before it
        /// releases the operation.
        var operation: ScheduledOperation? { held?.takeUnretainedValue() ?? observed }
        /// Whether the end is being posted, or the operation has been released.
        var isOver = false
        /// The semaphores of threads that wait until the end is posted.
        var waiters: [DispatchSemaphore] = []
    }

    private let lists = Locked(Lists())
    private let unfinished = Atomic<Int>(0)
    private let isObserved = Atomic<Bool>(false)
    /// A copy of `isOver` that is read without this lock, which must not be taken while another operation's lock is
    /// held.
    fileprivate let isGone = Atomic<Bool>(false)

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

    /// Adds an unfinished dependency. Returns whether all earlier dependencies had finished; nil for a duplicate, or if
    /// the operation is over.
    func add(_ dependency: Operation) -> Bool? {
        lists.withLock { lists in
            guard !lists.isOver, lists.dependencies.append(dependency) else { return nil }
            return unfinished.add(1, ordering: .sequentiallyConsistent).oldValue == 0
        }
    }

    /// Stores the watcher of a dependency. Returns false if the dependency has finished or was removed in the meantime.
    func attach(_ watcher: DependencyWatcher, to dependency: Operation) -> Bool {
        lists.withLock { $0.dependencies.attach(watcher, to: dependency) }
    }

    /// Removes a dependency. Returns whether it was the last unfinished one.
    func remove(_ dependency: Operation) -> Bool {
        let (removed, isLast) = lists.withLock { lists -> (DependencyLinks.Link?, Bool) in
            guard let removed = lists.dependencies.remove(dependency) else { return (nil, false) }
            return (removed, !removed.isFinished && countAsFinished())
        }
        removed?.watcher?.stop()
        return isLast
    }

    /// Marks a dependency as finished. Returns the operation if this was its last unfinished dependency and a queue
    /// must be notified.
    func finish(_ dependency: Operation) -> ScheduledOperation? {
        var watcher: DependencyWatcher?
        let operation = lists.withLock { lists -> ScheduledOperation? in
            guard lists.dependencies.finish(dependency, releasing: &watcher), countAsFinished() else { return nil }
            return lists.operation
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

    /// The operations that depend on this one, and may be in queues or awaited.
    var knownDependents: [ScheduledOperation] { lists.withLock { $0.dependents.all }.compactMap(\.heldOperation) }

    /// The operation, while a scheduler holds it or a Foundation queue may.
    private var heldOperation: ScheduledOperation? { lists.withLock { $0.operation } }

    /// Adds a dependent. Returns false if this operation is over.
    ///
    /// - Parameter isOver: A closure that returns whether this operation is over. It is evaluated under the lock,
    ///   because the operation may have ended before it had connections.
    func addDependent(_ dependent: OperationConnections, unless isOver: () -> Bool) -> Bool {
        lists.withLock { lists in
            guard !lists.isOver, !isOver() else { return false }
            lists.dependents.append(dependent)
            return true
        }
    }

    /// Adds a semaphore that is signalled when the end is posted. Returns false if this operation is over; see
    /// ``addDependent(_:unless:)``.
    func addWaiter(_ waiter: DispatchSemaphore, unless isOver: () -> Bool) -> Bool {
        lists.withLock { lists in
            guard !lists.isOver, !isOver() else { return false }
            lists.waiters.append(waiter)
            return true
        }
    }

    // MARK: The end

    /// Ends the connections, when the operation's end is being posted or the operation is being released. Releases the
    /// dependencies, and returns the dependents.
    func end() -> ContiguousArray<OperationConnections> {
        var dependencies = DependencyLinks()
        let (dependents, waiters) = lists.withLock { lists in
            lists.isOver = true
            lists.held = nil
            lists.observed = nil
            swap(&dependencies, &lists.dependencies)
            defer {
                lists.dependents = DependentList()
                lists.waiters = []
            }
            return (lists.dependents.all, lists.waiters)
        }
        for waiter in waiters { waiter.signal() }
        isGone.store(true, ordering: .relaxed)
        dependencies.release()
        return dependents
    }

    /// Records that the scheduler releases the operation.
    func letGo() { lists.withLock { $0.held = nil } }
}

/// The dependencies of one operation: without duplicates, each with a flag that shows whether it has finished.
///
/// A plain value without locks, guarded by its owner. Every call takes constant time.
struct DependencyLinks {
    struct Link {
        let operation: Operation
        /// The position in the order in which dependencies were added.
        let number: Int
        var watcher: DependencyWatcher?
        var isFinished = false
    }

    private var links: [ObjectIdentifier: Link] = [:]
    private var lastNumber = 0

    /// The dependencies, in the order in which they were added.
    var operations: [Operation] { links.values.sorted { $0.number < $1.number }.map(\.operation) }

    var unfinished: [Operation] { links.values.filter { !$0.isFinished }.map(\.operation) }

    /// Adds a dependency that has not finished. Returns false for a duplicate.
    mutating func append(_ operation: Operation) -> Bool {
        guard links[ObjectIdentifier(operation)] == nil else { return false }
        lastNumber += 1
        links[ObjectIdentifier(operation)] = Link(operation: operation, number: lastNumber)
        return true
    }

    /// Removes and returns a dependency; returns nil if it is not in the list.
    mutating func remove(_ operation: Operation) -> Link? { links.removeValue(forKey: ObjectIdentifier(operation)) }

    /// Marks a dependency as finished, and passes its watcher to the caller. Returns false if it is not in the list or
    /// had already finished.
    mutating func finish(_ operation: Operation, releasing watcher: inout DependencyWatcher?) -> Bool {
        let key = ObjectIdentifier(operation)
        guard links[key]?.isFinished == false else { return false }
        links[key]?.isFinished = true
        if let taken = links[key]?.watcher.take() { watcher = taken }
        return true
    }

    /// Stores the watcher of an unfinished dependency. Returns false if the dependency is missing or has finished.
    mutating func attach(_ watcher: DependencyWatcher, to operation: Operation) -> Bool {
        let key = ObjectIdentifier(operation)
        guard let link = links[key], !link.isFinished, link.watcher == nil else { return false }
        links[key]?.watcher = watcher
        return true
    }

    /// Stops all watchers and releases all operations. It is mutating because a copy would retain them.
    mutating func release() {
        guard !links.isEmpty else { return }
        var operations = links.values.map(\.operation)
        // A watcher holds the operation it watches, which must be released last.
        for link in links.values { link.watcher?.stop() }
        links = [:]
        DeferredRelease.release(&operations)
    }
}

/// The dependents of one operation. A plain value without locks, guarded by its owner.
struct DependentList {
    private(set) var all: ContiguousArray<OperationConnections> = []
    private var sweepAt = 64

    mutating func append(_ dependent: OperationConnections) {
        if all.count >= sweepAt {
            // Sweep whenever the length has doubled, so that the cost is low and the length stays bounded.
            all.removeAll { $0.isGone.load(ordering: .relaxed) }
            sweepAt = max(64, all.count * 2)
        }
        all.append(dependent)
    }
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
        guard !hasFired.exchange(true, ordering: .sequentiallyConsistent) else { return }
        super.removeDependency(watched)
    }

    override var isReady: Bool {
        let isReady = super.isReady
        if isReady { fire() }
        return isReady
    }

    /// Reports the end of an operation whose class overrides `start()` and therefore posts `isFinished` itself, to its
    /// queue and its dependents, which only Foundation would notify. Called when the operation has been started.
    static func watchEnd(of operation: ScheduledOperation) {
        // Foundation does not retain the watcher.
        let kept = Once<DependencyWatcher>()
        let watcher = DependencyWatcher(watched: operation) { operation in
            (operation as? ScheduledOperation)?.executionDidFinish()
            _ = kept.take()
        }
        kept.set(watcher)
        watcher.watch()
    }

    private func fire() {
        guard !hasFired.exchange(true, ordering: .sequentiallyConsistent) else { return }
        whenFinished(watched)
    }
}

/// The release of operations without recursion.
///
/// An operation owns its dependencies. Releasing the end of a long chain would nest one `deinit` inside another until
/// the stack overflows (with Foundation's own operations at about 50,000). Here the outermost release on a thread
/// collects the operations that inner releases pass on, and releases them in a loop.
enum DeferredRelease {
    /// The operations that the outermost release on this thread has yet to release.
    private static let pile = ThreadPointer<[Operation]>()

    /// Releases operations. The caller must not have copied the references.
    static func release(_ operations: inout [Operation]) {
        if let pile = pile.current {
            pile.pointee.append(contentsOf: operations)
            operations = []
            return
        }
        var collected: [Operation] = []
        pile.provide(&collected) { pile in
            operations = []
            while pile.pointee.popLast() != nil {}
        }
    }
}
