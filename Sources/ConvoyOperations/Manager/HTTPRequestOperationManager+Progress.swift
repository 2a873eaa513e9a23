import Foundation

/// The bytes of a manager's operations.
extension HTTPRequestOperationManager {
    /// How many bytes of the operations in the queue have come and gone, taken together. Those that have finished have left
    /// it; a ``BatchOperation`` counts its own to the end.
    public final var transferProgress: TransferProgress {
        TransferProgress.sum(of: queuedOperations.lazy.compactMap { $0 as? URLConnectionOperation })
    }

    /// The same ten times a second, until the queue is empty. To be iterated over once.
    public final var transferProgressUpdates: AsyncStream<TransferProgress> {
        TransferProgress.updates(of: { self.transferProgress }, until: { self.queuedOperationCount == 0 })
    }
}
