import ConvoySupport
import Foundation
import Synchronization

/// An operation that runs a block, like Foundation's `BlockOperation`, at the cost of a ``ScheduledOperation``.
///
/// The block runs once, on the dispatch queue of the operation queue (or on the thread that calls
/// `start()`), and not at all if the operation is cancelled first. It is released when it has run.
open class ScheduledBlockOperation: ScheduledOperation, @unchecked Sendable {
    private let block = Locked<(@Sendable () -> Void)?>(nil)

    /// Makes an operation that runs `block`.
    public convenience init(_ block: @escaping @Sendable () -> Void) {
        self.init()
        self.block.withLock { $0 = block }
    }

    /// Runs the block.
    override open func main() {
        takeBlock()?()
    }

    override func releaseWork() {
        _ = takeBlock()
    }

    private func takeBlock() -> (@Sendable () -> Void)? {
        block.withLock { held in
            let block = held
            held = nil
            return block
        }
    }
}
