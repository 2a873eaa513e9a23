import ConvoySupport
import ConvoyTransport
import Foundation
import Synchronization

/// An operation queue backed by a Foundation queue, which starts the operations that only Foundation can start.
protocol FoundationBackedQueue: OperationQueue {
    /// Adds an operation to the backing Foundation queue, which starts it immediately.
    func startInFoundation(_ operation: Operation)
}

/// The receiver of the events of a queue's foreign members.
protocol ForeignScheduler: AnyObject, Sendable {
    func foreignDidBecomeReady(_ member: ExternalOperation)
    func foreignDidFinish(_ member: ExternalOperation)
    /// Takes back the slot of an operation that is not ready.
    func giveBack(by member: ExternalOperation)
}

/// A member of a ``RequestOperationQueue`` that is not one of Convoy's operations.
///
/// Foundation must start it, because only Foundation can set the private state that `Operation.start()` requires. When
/// it has a slot and is ready, it is added to the backing Foundation queue. Until it is ready, it waits in a
/// ``ExternalReadinessQueue``.
final class ExternalOperation: @unchecked Sendable {
    private struct Hooks {
        var readiness: ExternalReadinessQueue?
        var watcher: DependencyWatcher?
        var hasFinished = false
    }

    let operation: Operation
    private let queue: any FoundationBackedQueue
    private let scheduler: any ForeignScheduler
    /// Whether the operation was ready when added, and therefore needed no readiness queue.
    private let wasReady: Bool
    private let hooks = Locked(Hooks())

    /// The index in the queue. Only the queue accesses the index, under its lock.
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

    /// Whether the operation may belong to a user's class.
    private var runsUserCode: Bool { type(of: operation) != BlockOperation.self }

    /// Starts watching for the end of an operation that is ready.
    func watch() {
        let watcher = DependencyWatcher(watched: operation) { [self] _ in finish() }
        guard keep({ $0.watcher = watcher }) else { return }
        watcher.watch()
    }

    /// Makes an operation that is not ready wait for its readiness, without a slot.
    func waitForReadiness() {
        makeReadinessQueue()?.enter(operation)
    }

    private func makeReadinessQueue() -> ExternalReadinessQueue? {
        let readiness = ExternalReadinessQueue(for: self, in: queue)
        return keep({ $0.readiness = readiness }) ? readiness : nil
    }

    /// Starts the operation, which was granted a slot.
    func begin() {
        // Evaluating the operation's properties may run user code, which must not run on the network thread.
        if runsUserCode, NetworkThread.isCurrent { return BlockingWorkers.shared.perform { self.begin() } }
        if operation.isFinished { return finish() }
        if let readiness = hooks.withLock({ $0.readiness }) { return readiness.open() }
        if operation.isReady { return queue.startInFoundation(operation) }
        // The order matters: once the slot is released, the readiness queue must exist, and it must not report
        // readiness earlier.
        let readiness = makeReadinessQueue()
        scheduler.giveBack(by: self)
        readiness?.enter(operation)
    }

    /// Reports to the queue that the operation is ready. Foundation starts it as soon as the readiness queue is opened.
    func becomeReady() {
        scheduler.foreignDidBecomeReady(self)
    }

    /// Reports again that the operation is ready, after the queue removed it from its lanes or it was cancelled.
    func repeatReadiness() {
        // If the operation is still entering a readiness queue, that queue will report its readiness.
        let isKnownReady = hooks.withLock { $0.readiness?.hasAnnounced ?? wasReady }
        if isKnownReady { becomeReady() }
    }

    /// Reports to the queue that the operation has finished. Only the first call has an effect.
    func finish() {
        let released: Hooks? = hooks.withLock { hooks in
            guard !hooks.hasFinished else { return nil }
            let released = hooks
            hooks = Hooks(hasFinished: true)
            return released
        }
        guard let released else { return }
        scheduler.foreignDidFinish(self)
        released.readiness?.close()
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
    /// overflows. Operations in a chain have few dependencies; a long list is kept, because removing its elements is
    /// slow.
    ///
    /// A cancelled operation may be released before its dependencies have finished. The dependencies would then use an
    /// unretained pointer to it, which Foundation gave them, so its list is always emptied.
    private func trimDependencies() {
        var dependencies = operation.dependencies
        guard !dependencies.isEmpty, dependencies.count <= 4 || operation.isCancelled else { return }
        for dependency in dependencies { operation.removeDependency(dependency) }
        DeferredRelease.release(&dependencies)
    }
}

/// The queue in which a foreign operation waits until it is ready, and then for a slot.
///
/// Only a Foundation queue can detect that such an operation has become ready, because a dependency finished, because
/// it was cancelled, or because its own condition changed. A Foundation queue with many waiting operations is slow,
/// because it checks all of them at each event, so each operation gets its own queue. The underlying dispatch queue is
/// inactive at first: Foundation submits the ready operation to it, where the operation stays until ``open()``.
///
/// In the operation's code, `OperationQueue.current` is the readiness queue, which forwards added operations to the
/// owner.
final class ExternalReadinessQueue: OperationQueue, @unchecked Sendable {
    private let owner: OperationQueue
    private let gate: DispatchQueue
    private let probe: ReadinessProbe

    init(for member: ExternalOperation, in owner: OperationQueue) {
        self.owner = owner
        gate = DispatchQueue(
            label: "Convoy.ExternalReadinessQueue", attributes: .initiallyInactive,
            target: owner.underlyingQueue ?? DispatchQueue.global(qos: owner.qualityOfService.dispatchClass))
        probe = ReadinessProbe(member)
        super.init()
        underlyingQueue = gate
    }

    deinit {
        // Releasing an inactive dispatch queue crashes.
        gate.activate()
    }

    /// Whether the operation was reported as ready.
    var hasAnnounced: Bool { probe.hasAnnounced }

    /// Adds the operation, and reports it as ready immediately if it is.
    func enter(_ operation: Operation) {
        super.addOperation(operation)
        // The probe has the lowest priority, so that Foundation evaluates the operation first.
        probe.queuePriority = .veryLow
        super.addOperation(probe)
    }

    /// Lets the operation start, now or as soon as it is ready.
    func open() {
        gate.activate()
        // Foundation may have missed that the operation became ready, if the operation did not post the change.
        probe.operation?.didChangeValue(forKey: "isReady")
    }

    /// Lets the probe finish, and with it the readiness queue.
    func close() {
        gate.activate()
        probe.didChangeValue(forKey: "isReady")
    }

    override func addOperation(_ operation: Operation) { owner.addOperation(operation) }
    override func addOperation(_ block: @escaping @Sendable () -> Void) { owner.addOperation(block) }
    override func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
        owner.addOperations(operations, waitUntilFinished: wait)
    }
    override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) { owner.addBarrierBlock(barrier) }
    override func cancelAllOperations() { owner.cancelAllOperations() }
    override var maxConcurrentOperationCount: Int {
        get { owner.maxConcurrentOperationCount }
        set { owner.maxConcurrentOperationCount = newValue }
    }
    override var isSuspended: Bool {
        get { owner.isSuspended }
        set { owner.isSuspended = newValue }
    }
    override var name: String? {
        get { owner.name }
        set { owner.name = newValue }
    }
    override var progress: Progress { owner.progress }

    /// The second operation of a readiness queue, which observes the first.
    ///
    /// After every event, a Foundation queue evaluates `isReady` of the operations that were not ready before. The
    /// probe is not ready until the first operation has finished, so its `isReady` is evaluated after each event of
    /// that operation.
    private final class ReadinessProbe: Operation, @unchecked Sendable {
        private let member = Locked<ExternalOperation?>(nil)
        private let announced = Atomic<Bool>(false)

        init(_ member: ExternalOperation) {
            super.init()
            self.member.withLock { $0 = member }
        }

        var hasAnnounced: Bool { announced.load(ordering: .sequentiallyConsistent) }
        var operation: Operation? { member.withLock { $0 }?.operation }

        override var isReady: Bool {
            guard let member = member.withLock({ $0 }) else { return true }
            if member.operation.isFinished {
                let wasFirst = self.member.withLock { held in
                    defer { held = nil }
                    return held != nil
                }
                guard wasFirst else { return true }
                member.finish()
                return true
            }
            if !hasAnnounced, member.operation.isReady,
                !announced.exchange(true, ordering: .sequentiallyConsistent)
            {
                member.becomeReady()
            }
            return false
        }
    }
}

extension QualityOfService {
    /// The Dispatch class to which Foundation maps this quality of service.
    var dispatchClass: DispatchQoS.QoSClass {
        switch self {
        case .userInteractive: .userInteractive
        case .userInitiated: .userInitiated
        case .utility: .utility
        case .background: .background
        case .default: .default
        @unknown default: .default
        }
    }
}
