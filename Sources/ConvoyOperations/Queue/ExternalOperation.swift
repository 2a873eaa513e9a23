import ConvoySupport
import Foundation
import Synchronization

/// The member of a ``RequestOperationQueue`` that stands for an operation which is not one of Convoy's.
///
/// It is scheduled like every other operation. Its start and its end are those of the operation that it stands for.
/// Foundation must start that operation, because only Foundation can set the private state that `Operation.start()`
/// requires. When the member has a slot, the operation is added to the backing Foundation queue. Until the operation is
/// ready, it waits in an ``ExternalReadinessQueue``.
final class ExternalOperation: ScheduledOperation, @unchecked Sendable {
    let operation: Operation
    private let queue: RequestOperationQueue
    private let readiness = AtomicOnce<ExternalReadinessQueue>()
    private let watcher = AtomicOnce<DependencyWatcher>()
    /// Whether the operation was ready when added, and therefore needed no readiness queue.
    private let wasReady: Bool
    /// Whether the operation was found ready. Foundation then starts it as soon as it has a slot.
    private let isKnownReady: Atomic<Bool>

    init(_ operation: Operation, in queue: RequestOperationQueue) {
        self.operation = operation
        self.queue = queue
        wasReady = operation.isReady
        isKnownReady = Atomic(wasReady)
        super.init()
        let runsUserCode = type(of: operation) != BlockOperation.self
        declare(runsUserCode ? .startedDirectly : [.startedDirectly, .ofLibrary])
        guard runsUserCode, !wasReady else { return }
        for case let dependency as ScheduledOperation in operation.dependencies { dependency.declare(.wakesForeign) }
    }

    override var represented: Operation { operation }
    override var isReady: Bool { isKnownReady.load(ordering: .sequentiallyConsistent) }
    override var isFinished: Bool { operation.isFinished }
    override var isCancelled: Bool { operation.isCancelled }
    override var queuePriority: QueuePriority {
        get { operation.queuePriority }
        set { operation.queuePriority = newValue }
    }
    override var qualityOfService: QualityOfService {
        get { operation.qualityOfService }
        set { operation.qualityOfService = newValue }
    }
    override var reportsItsEnd: Bool { true }
    override var isExecuting: Bool { operation.isExecuting }
    override var waitsForDependencies: Bool { operation.dependencies.contains { !$0.isFinished } }

    /// Waits for the end of the operation, and for its readiness first if it is not ready. Called when the member has
    /// been added to its queue.
    func watch() {
        guard wasReady else { return waitForReadiness() }
        let made = DependencyWatcher(watched: operation) { [weak self] _ in self?.finish() }
        if watcher.set(made) { made.watch() }
    }

    private func waitForReadiness() {
        guard !operation.isFinished else { return finish() }
        let made = ExternalReadinessQueue(for: self, in: queue)
        if readiness.set(made) { made.enter(operation) }
    }

    /// Starts the operation, because the member was granted a slot.
    override func start() {
        if operation.isFinished { return finish() }
        if let readiness = readiness.object { return readiness.open() }
        if operation.isReady { return queue.startInFoundation(operation) }
        // The slot must be released before the readiness is reported again.
        isKnownReady.store(false, ordering: .sequentiallyConsistent)
        slotDidFree()
        waitForReadiness()
    }

    /// Cancels the operation. Foundation does not report the cancellation of an operation that was waiting only for a
    /// slot.
    override func cancel() {
        operation.cancel()
        if operation.isCancelled { readinessDidChange() }
    }

    /// Reports to the queue that the operation is ready. Foundation starts it as soon as the readiness queue is opened.
    fileprivate func becomeReady() {
        if !isKnownReady.exchange(true, ordering: .sequentiallyConsistent) { readinessDidChange() }
    }

    override func leave() {
        super.leave()
        finish()
    }

    /// Reports to the queue that the operation has finished.
    fileprivate func finish() {
        // The end releases this member, and with it the watcher, to which Foundation would keep a pointer.
        watcher.object?.stop()
        executionDidFinish()
        readiness.object?.close()
    }

    /// Removes the operation's dependencies, for two reasons.
    ///
    /// Foundation keeps finished dependencies forever, and releasing a long chain of them recurses until the stack
    /// overflows. Operations in a chain have few dependencies; a long list is kept, because removing its elements is
    /// slow.
    ///
    /// A cancelled operation may be released before its dependencies have finished. The dependencies would then use an
    /// unretained pointer to it, which Foundation gave them, so its list is always emptied.
    override func releaseWork() {
        scheduler.object?.forget(operation)
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
            target: owner.underlyingQueue ?? .global())
        probe = ReadinessProbe(member)
        super.init()
        underlyingQueue = gate
    }

    deinit {
        // Releasing an inactive dispatch queue crashes.
        gate.activate()
    }

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

        init(_ member: ExternalOperation) {
            super.init()
            self.member.withLock { $0 = member }
        }

        var operation: Operation? { member.withLock { $0 }?.operation }

        override var isReady: Bool {
            guard let member = member.withLock({ $0 }) else { return true }
            if member.operation.isFinished {
                self.member.withLock { $0 = nil }
                member.finish()
                return true
            }
            if !member.isReady, member.operation.isReady { member.becomeReady() }
            return false
        }
    }
}
