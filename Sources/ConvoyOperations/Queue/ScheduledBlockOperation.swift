import Foundation
import Synchronization

/// An operation that runs a block, like Foundation's `BlockOperation`, at the cost of a ``ScheduledOperation``.
///
/// The block runs once, on the dispatch queue of the operation queue (or on the thread that calls `start()`), or not at
/// all if the operation is cancelled first. It is released when it has run.
open class ScheduledBlockOperation: ScheduledOperation, @unchecked Sendable {
    /// The block, written before the operation is shared, and then only by the thread that sets `isTaken`.
    private var block: (@Sendable () -> Void)?
    private let isTaken = Atomic<Bool>(false)

    /// Creates an operation that runs `block`.
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
