import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

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

    /// Enqueues operations, and lets `body` have them in the order in which they finish. Those that are left when it returns
    /// or throws are cancelled, and waited for; so none outlives the call. Cancelling the task cancels all.
    ///
    /// ```swift
    /// let fastest = try await manager.withBatch(of: mirrors) { finished in
    ///     await finished.first { $0.error == nil }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - operations: the members; one that is given twice counts once.
    ///   - isolation: where `body` runs: with the caller, unless given.
    ///   - body: gets each member when it has finished and its handlers have run, also one that has failed or was cancelled:
    ///     its `error` tells. The sequence ends after the last one, and can be iterated over once.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, or `URLError.cancelled` if the task was cancelled.
    public func withBatch<Member: URLConnectionOperation, Result>(
        of operations: [Member], isolation: isolated (any Actor)? = #isolation,
        _ body: (AsyncStream<Member>) async throws -> Result
    ) async throws -> Result {
        let members = operations.eachOnce
        let (finished, continuation) = AsyncStream.makeStream(of: Member.self)
        let left = Locked(members.count)
        if members.isEmpty { continuation.finish() }
        for member in members {
            member.whenDelivered { [weak member] in
                if let member { continuation.yield(member) }
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { continuation.finish() }
            }
        }
        enqueue(members)
        return try await withTaskCancellationHandler {
            do {
                let result = try await body(finished)
                await members.endAll()
                if Task.isCancelled { throw URLError(.cancelled, url: nil, "The batch was cancelled.") }
                return result
            } catch {
                await members.endAll()
                throw error
            }
        } onCancel: {
            for member in members { member.cancel() }
        }
    }
}

extension Array where Element: URLConnectionOperation {
    /// Cancels what has not finished, and waits until everything has.
    fileprivate nonisolated(nonsending) func endAll() async {
        for operation in self { operation.cancel() }
        for operation in self {
            await withCheckedContinuation { continuation in
                operation.whenDelivered { continuation.resume() }
            }
        }
    }
}
