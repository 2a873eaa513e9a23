import Foundation

/// Batches that are awaited.
extension HTTPManager {
    /// Enqueues operations, and waits until all have finished and their handlers have run. Cancelling the task cancels
    /// them.
    ///
    /// ```swift
    /// let images = try names.map { try manager.makeOperation(.get, "images/\($0)") }
    /// for image in try await manager.enqueueBatch(of: images) where image.error == nil { … }
    /// ```
    ///
    /// - Parameters:
    ///   - operations: the members.
    ///   - progress: called for each operation after its own handlers, with numbers that rise by one, on
    ///     `completionQueue`, or on a queue of the library's own where there is none.
    /// - Returns: the operations in their order, each once. One that has failed holds its `error`.
    /// - Throws: `URLError.cancelled` if the task was cancelled.
    @discardableResult
    public func enqueueBatch<Member: URLConnectionOperation>(
        of operations: [Member], progress: BatchOperation.ProgressHandler? = nil
    ) async throws -> [Member] {
        let members = operations.eachOnce
        let batch = BatchOperation(
            of: members, completionQueue: completionQueue ?? OperationQueues.processing, progress: progress)
        enqueue(members + [batch])
        try await batch.finished()
        return members
    }
}
