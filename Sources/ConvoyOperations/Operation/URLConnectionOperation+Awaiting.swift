import Foundation

/// Awaiting the end.
extension URLConnectionOperation {
    /// Waits until the operation has finished and its handlers have run; starts it, if nobody else does. Cancelling the
    /// task cancels the operation.
    ///
    /// ```swift
    /// let operation = HTTPRequestOperation(request: request)
    /// try await operation.finished()
    /// ```
    ///
    /// An operation that nobody has enqueued or started is put into a queue of the library's own, which lets 256
    /// operations run at a time, and 64 for one host; so are the `ScheduledOperation`s that it depends on, and what they
    /// depend on. (Operations of other classes are left alone: nobody can tell whether they are in a queue.) A paused
    /// one waits there until it is resumed, a cancelled one finishes at once.
    ///
    /// A manager, and a `RequestOperationQueue`, ignore an operation that they get later. `OperationQueue` itself must
    /// not get it after that, as no operation may be in two queues. One whose `isReady` somebody has evaluated counts as
    /// being in a queue of Foundation's: it must be enqueued or started by its owner.
    ///
    /// - Throws: the operation's `error`.
    public final func finished() async throws {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                whenDelivered { continuation.resume() }
                AwaitedOperations.start(self)
            }
        } onCancel: {
            cancel()
        }
        if let error { throw error }
    }
}
