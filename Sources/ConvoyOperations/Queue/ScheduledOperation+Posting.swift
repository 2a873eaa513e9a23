import ConvoySupport
import Dispatch
import Foundation
import Synchronization

/// Methods that post the changes of an operation to its queue, its dependents and Foundation.
extension ScheduledOperation {
    /// Posts that `isReady` may have changed, in either direction.
    package final func readinessDidChange() {
        guard !mustPostElsewhere else { return BlockingWorkers.shared.perform { self.readinessDidChange() } }
        if let scheduler = scheduler.object {
            scheduler.readinessDidChange(of: self)
        } else {
            inquiries.post(self)
            // The start takes place elsewhere, so that the starts of a long chain do not nest.
            if has(.startsWhenReady), isReady { DispatchQueue.global().submit { self.start() } }
        }
    }

    /// Posts that the operation has begun to execute.
    package final func executionDidBegin() {
        // On Linux only a Foundation queue that holds the operation observes it.
        guard !isScheduled else { return }
        guard !mustPostElsewhere else { return BlockingWorkers.shared.perform { self.executionDidBegin() } }
        didChangeValue(forKey: "isExecuting")
    }

    /// Posts that a started operation has stopped before its end, and releases its slot.
    ///
    /// Call this once for each `start()` that ended in a pause or found the operation not ready. When the operation is
    /// ready again, it calls ``readinessDidChange()``; the queue then calls `start()` again as soon as a slot is free.
    package final func slotDidFree() {
        if let scheduler = scheduler.object { scheduler.slotDidFree(by: self) } else { readinessDidChange() }
    }

    /// Posts that `isFinished` has become true, wakes the dependents, and releases the slot.
    ///
    /// Only the first call has an effect. Afterwards the operation has no dependencies, no work and no completion
    /// block.
    package final func executionDidFinish() {
        guard !mustPostElsewhere else { return BlockingWorkers.shared.perform { self.executionDidFinish() } }
        guard set(.over) else { return }
        let dependents = connections.object?.end()
        didChangeValue(forKey: "isFinished")
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        completion.object?.run()
        releaseWork()
        scheduler.object?.operationDidFinish(self)
        dependents?.forEach { $0.finish(self)?.readinessDidChange() }
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
