import ConvoySupport
import Foundation
import Synchronization

/// An operation that runs a block, like Foundation's `BlockOperation`, at the cost of a ``ScheduledOperation``.
///
/// The block runs once, on the dispatch queue of the operation queue (or on the thread that calls `start()`), or not at
/// all if the operation is cancelled first. It is released when it has run.
open class ScheduledBlockOperation: ScheduledOperation, @unchecked Sendable {
    /// Written before the operation is shared, and then only by the thread that sets `isTaken`.
    private var block: (@Sendable () -> Void)?
    private let isTaken = Atomic<Bool>(false)

    /// Makes an operation that runs `block`.
    public convenience init(_ block: @escaping @Sendable () -> Void) {
        self.init()
        self.block = block
    }

    /// Runs the block.
    override open func main() {
        takeBlock()?()
    }

    package override var isOfLibrary: Bool { type(of: self) == ScheduledBlockOperation.self }

    override func releaseWork() {
        _ = takeBlock()
    }

    private func takeBlock() -> (@Sendable () -> Void)? {
        guard !isTaken.exchange(true, ordering: .acquiringAndReleasing) else { return nil }
        let block = self.block
        self.block = nil
        return block
    }
}

/// An operation that finishes when something has happened, so that others can wait for that.
///
/// It needs no queue, and takes no slot of one. It does not belong in Foundation's queues: it may have finished before it is
/// added.
package final class SignalOperation: ScheduledOperation, @unchecked Sendable {
    override package var isStartedDirectly: Bool { true }
    override package var isAsynchronous: Bool { true }
    override package var isOfLibrary: Bool { true }
    override package var takesSlot: Bool { false }

    package override init() {
        super.init()
        // What lies ahead is held back as by a pause.
        _ = lifecycle.handle(.pause)
    }

    private var isAhead: Bool { lifecycle.value.state == .paused }

    /// It has happened. Only the first call of this or `cancel()` counts.
    package func reach() { handle(.resume) }

    /// It will not happen.
    override package func cancel() { if isAhead { handle(.cancel) } }

    /// It will not happen any more, if it has not.
    package func end(because error: (any Error)?) {
        guard isAhead else { return }
        if let error { cancel(because: error) } else { cancel() }
    }

    override package func start() { handle(.start) }

    override package func proceed(after transition: AtomicLifecycle.Transition) {
        // No queue has it, which would start it.
        if transition.new.state == .ready, !mayBeEnqueued { return handle(.start) }
        super.proceed(after: transition)
    }
}
