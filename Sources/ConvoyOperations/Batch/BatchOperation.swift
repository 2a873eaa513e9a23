import ConvoySupport
import Foundation
import Synchronization

/// The end of a batch: finishes when every member has finished, the members' own handlers have run, and the batch's
/// completion has too. Operations that depend on it start after all of that.
///
/// Cancelled, it finishes without having called the completion; the members go on. One that is in no queue finishes
/// when it is started.
public final class BatchOperation: ScheduledOperation, @unchecked Sendable {
    /// How many members have finished and delivered, of how many. Each number comes once, in order.
    public typealias ProgressHandler = @Sendable (_ finished: Int, _ total: Int) -> Void
    /// Called with all members, in the order in which they were given.
    public typealias Completion = @Sendable (_ operations: [URLConnectionOperation]) -> Void

    private struct Batch {
        var state = OperationState.ready
        var isCancelled = false
        var hasCompleted = false
        var delivered = 0
        var members: [URLConnectionOperation]
        var progress: ProgressHandler?
        var completion: Completion?
    }

    private let batch: Locked<Batch>
    private let total: Int
    /// Serial, so that the numbers come in order and the completion last.
    private let queue: DispatchQueue

    init(
        members: [URLConnectionOperation], queue: DispatchQueue?, progress: ProgressHandler?, completion: Completion?
    ) {
        total = members.count
        self.queue = DispatchQueue(label: "Convoy.Batch", target: queue ?? .main)
        batch = Locked(Batch(members: members, progress: progress, completion: completion))
        super.init()
        for member in members {
            addDependency(member)
            // Not held by the members: a batch that nobody enqueues is let go of with them.
            member.whenDelivered { [weak self] in self?.memberDelivered() }
        }
    }

    public override var isReady: Bool { super.isReady && batch.withLock { $0.state == .ready } }
    public override var isExecuting: Bool { batch.withLock { $0.state == .executing } }
    public override var isFinished: Bool { batch.withLock { $0.state == .finished } }
    public override var isCancelled: Bool { batch.withLock { $0.isCancelled } }
    public override var isAsynchronous: Bool { true }
    package override var isStartedDirectly: Bool { true }

    public override func start() {
        let begins = batch.withLock { batch in
            guard batch.state == .ready else { return false }
            batch.state = .executing
            return true
        }
        guard begins else { return }
        executionDidBegin()
        completeIfDone()
    }

    public override func cancel() {
        let isNew = batch.withLock { batch in
            guard batch.state != .finished, !batch.isCancelled else { return false }
            batch.isCancelled = true
            return true
        }
        guard isNew else { return }
        // One that has not been started finishes in `start()`, which a `RequestOperationQueue` calls at once.
        super.cancel()
        completeIfDone()
    }

    private func memberDelivered() {
        let (delivered, progress) = batch.withLock { batch in
            batch.delivered += 1
            // Queued under the lock, which keeps the order of the numbers.
            if let progress = batch.progress, !batch.isCancelled {
                let (count, total) = (batch.delivered, self.total)
                queue.async { progress(count, total) }
            }
            return (batch.delivered, batch.progress)
        }
        withExtendedLifetime(progress) {}
        if delivered == total { completeIfDone() }
    }

    private func completeIfDone() {
        enum Next { case wait, finish, complete(Completion?, [URLConnectionOperation]) }
        let next: Next = batch.withLock { batch in
            guard batch.state == .executing, !batch.hasCompleted else { return .wait }
            guard batch.isCancelled || batch.delivered == total else { return .wait }
            batch.hasCompleted = true
            return batch.isCancelled ? .finish : .complete(batch.completion, batch.members)
        }
        switch next {
        case .wait: return
        case .finish: finish()
        case .complete(let completion, let members):
            guard let completion else { return finish() }
            queue.async { [self] in
                completion(members)
                finish()
            }
        }
    }

    private func finish() {
        let (held, isNew) = batch.withLock { batch in
            let held = (batch.members, batch.progress, batch.completion)
            let isNew = batch.state != .finished
            batch.state = .finished
            batch.members = []
            batch.progress = nil
            batch.completion = nil
            return (held, isNew)
        }
        withExtendedLifetime(held) {}
        if isNew { executionDidFinish() }
    }
}

extension URLConnectionOperation {
    /// Makes a batch of operations: `batchOfRequestOperations:progressBlock:completionBlock:`.
    ///
    /// Failed and cancelled members count as finished. An operation that is given twice is in the batch once. An
    /// operation may be in several batches, and its handlers may be set before or after.
    ///
    /// - Parameters:
    ///   - queue: where the handlers run; nil, as in AFNetworking, is the main queue.
    ///   - progress: called for each member after its own handlers, with numbers that rise by one.
    ///   - completion: called once, after all members' handlers have run.
    /// - Returns: the members and, last, a `BatchOperation`; none is enqueued yet, and all must be.
    public static func batch(
        of operations: [URLConnectionOperation], completionQueue queue: DispatchQueue? = nil,
        progress: BatchOperation.ProgressHandler? = nil, completion: BatchOperation.Completion? = nil
    ) -> [Operation] {
        var seen = Set<ObjectIdentifier>()
        let members = operations.filter { seen.insert(ObjectIdentifier($0)).inserted }
        let end = BatchOperation(members: members, queue: queue, progress: progress, completion: completion)
        return members + [end]
    }
}
