import ConvoySupport
import ConvoyTransport
import Foundation

/// The final operation of a batch. It finishes when all members have finished, the members' handlers have run, and the
/// batch's completion handler has run. Operations that depend on the batch start afterwards.
///
/// ```swift
/// let batch = BatchOperation(of: operations)
/// try await batch.finished()
/// ```
///
/// A cancelled batch finishes without calling the completion handler, and the members continue. A batch outside a queue
/// finishes when it is started or awaited.
public final class BatchOperation: ScheduledOperation, @unchecked Sendable {
    /// A handler called with the number of members that have finished and whose handlers have run, and the total. Each
    /// number is reported once, in order.
    public typealias ProgressHandler = @Sendable (_ finished: Int, _ total: Int) -> Void
    /// A handler called with all members, in the order in which they were passed in.
    public typealias Completion = @Sendable (_ operations: [URLConnectionOperation]) -> Void

    private struct Batch {
        var isFinishing = false
        var isEndPosted = false
        var delivered = 0
        var members: [URLConnectionOperation]
        /// Whether the sum of the members' progress must be kept when the members are released.
        var countsBytes = false
        var sum: TransferProgress?
        var progress: ProgressHandler?
        var completion: Completion?
        /// The internal blocks to run when the batch has finished.
        var hooks: [@Sendable () -> Void] = []
    }

    private let batch: Locked<Batch>
    private let total: Int
    /// The queue of the handlers. It is serial, so that the progress is reported in order and the completion handler
    /// runs last.
    private let queue: DispatchQueue
    private let isOnMainQueue: Bool

    /// Creates a batch of operations. Enqueue the batch and all members, or await the batch, which starts the members
    /// that are not enqueued.
    ///
    /// Failed and cancelled members count as finished. Duplicates are ignored. An operation may be in several batches,
    /// and its handlers may be set before or after the batch is created.
    ///
    /// - Parameters:
    ///   - operations: The members of the batch.
    ///   - queue: The queue on which the handlers run; nil for the main queue, as in AFNetworking.
    ///   - progress: The handler called for each member after the member's own handlers, with a count that increases by
    ///     one.
    ///   - completion: The handler called once, after the handlers of all members have run.
    public init(
        of operations: [URLConnectionOperation], completionQueue queue: DispatchQueue? = nil,
        progress: ProgressHandler? = nil, completion: Completion? = nil
    ) {
        let members = Self.withoutDuplicates(operations)
        total = members.count
        self.queue = DispatchQueue(label: "Convoy.Batch", target: queue ?? .main)
        isOnMainQueue = queue == nil
        batch = Locked(Batch(members: members, progress: progress, completion: completion))
        super.init()
        declare([.ofLibrary, .startedDirectly])
        for member in members {
            addDependency(member)
            // The reference is weak, so that a batch that is never enqueued can be released.
            member.whenDelivered { [weak self] in self?.memberDelivered() }
        }
    }

    public override var isAsynchronous: Bool { true }

    override func performWork() { finishIfDone() }
    override func stopWork() { finishIfDone() }

    package override func proceed(after transition: AtomicLifecycle.Transition) {
        guard transition.action == .finish else { return super.proceed(after: transition) }
        releaseMembers()
        super.proceed(after: transition)
        let hooks = batch.withLock { batch in
            batch.isEndPosted = true
            defer { batch.hooks = [] }
            return batch.hooks
        }
        for hook in hooks { hook() }
    }

    // MARK: Awaiting

    /// Waits until the batch has finished, that is, until all members have finished and the handlers of the members and
    /// the batch have run. Members that were neither enqueued nor started are added to a queue of the batch, which runs
    /// at most 256 operations concurrently and at most 64 per host. Cancelling the task cancels the members.
    ///
    /// A failed member does not make the batch fail, so check the `error` of each member.
    ///
    /// - Throws: `URLError.cancelled` if the batch or the task was cancelled.
    public func finished() async throws {
        let members = batch.withLock { $0.members }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                whenFinished { continuation.resume() }
                let queue = RequestOperationQueue.withDefaultLimits(named: "Convoy.Batch")
                let operations: [ScheduledOperation] = members + [self]
                for operation in operations where operation.claimUnlessTaken() { queue.addOperation(operation) }
            }
        } onCancel: {
            for member in members { member.cancel() }
        }
        if isCancelled || Task.isCancelled { throw URLError(.cancelled, url: nil, "The batch was cancelled.") }
    }

    /// Runs the block when the end is posted, or immediately if it has already been posted.
    private func whenFinished(_ hook: @escaping @Sendable () -> Void) {
        let isOver = batch.withLock { batch in
            if !batch.isEndPosted { batch.hooks.append(hook) }
            return batch.isEndPosted
        }
        if isOver { hook() }
    }

    // MARK: Members

    /// Returns operations without duplicates, each at its first position.
    static func withoutDuplicates<Member: URLConnectionOperation>(_ operations: [Member]) -> [Member] {
        var seen = Set<ObjectIdentifier>()
        return operations.filter { seen.insert(ObjectIdentifier($0)).inserted }
    }

    private var queueForHandlers: DispatchQueue {
        if isOnMainQueue { UsageWarning.mainQueue.probe(queue) }
        return queue
    }

    private func memberDelivered() {
        let (delivered, progress) = batch.withLock { batch in
            batch.delivered += 1
            // Submit the handler under the lock, so that the counts are reported in order.
            if let progress = batch.progress, !isCancelled {
                let (count, total) = (batch.delivered, self.total)
                queueForHandlers.submit { progress(count, total) }
            }
            return (batch.delivered, batch.progress)
        }
        withExtendedLifetime(progress) {}
        if delivered == total { finishIfDone() }
    }

    private func finishIfDone() {
        enum NextAction { case wait, finish, complete(Completion?, [URLConnectionOperation]) }
        let next: NextAction = batch.withLock { batch in
            let life = lifecycle.value
            guard life.state == .executing, !batch.isFinishing else { return .wait }
            guard life.isCancelled || batch.delivered == total else { return .wait }
            batch.isFinishing = true
            // A batch with only a progress handler also waits until the last progress has been reported.
            let hasHandlers = batch.completion != nil || batch.progress != nil
            return life.isCancelled || !hasHandlers ? .finish : .complete(batch.completion, batch.members)
        }
        switch next {
        case .wait: return
        case .finish: finish()
        case .complete(let completion, let members):
            queueForHandlers.submit { [self] in
                completion?(members)
                finish()
            }
        }
    }

    /// The sum of the members' progress.
    public var transferProgress: TransferProgress {
        let (members, sum) = batch.withLock { batch in
            batch.countsBytes = true
            return (batch.members, batch.sum)
        }
        return sum ?? TransferProgress.sum(of: members)
    }

    /// A sequence of `transferProgress` values, ten per second, from the current progress to the final one. Iterate
    /// over it once.
    public var transferProgressUpdates: AsyncStream<TransferProgress> {
        TransferProgress.updates(of: { self.transferProgress }, until: { self.isFinished })
    }

    private func finish() {
        releaseMembers()
        workDidEnd()
    }

    /// Releases the members and the handlers. If the progress is being read, first stores its sum.
    private func releaseMembers() {
        let sum = batch.withLock { $0.countsBytes && $0.sum == nil ? $0.members : nil }.map(TransferProgress.sum)
        let held = batch.withLock { batch in
            if let sum { batch.sum = sum }
            defer {
                batch.members = []
                batch.progress = nil
                batch.completion = nil
            }
            return (batch.members, batch.progress, batch.completion)
        }
        withExtendedLifetime(held) {}
    }
}

extension URLConnectionOperation {
    /// Creates a batch of operations. The counterpart of `batchOfRequestOperations:progressBlock:completionBlock:`. The
    /// parameters are those of `BatchOperation.init(of:completionQueue:progress:completion:)`.
    ///
    /// - Returns: The members followed by a `BatchOperation`. The caller must enqueue all of them.
    public static func batch(
        of operations: [URLConnectionOperation], completionQueue queue: DispatchQueue? = nil,
        progress: BatchOperation.ProgressHandler? = nil, completion: BatchOperation.Completion? = nil
    ) -> [Operation] {
        let end = BatchOperation(of: operations, completionQueue: queue, progress: progress, completion: completion)
        return BatchOperation.withoutDuplicates(operations) + [end]
    }
}
