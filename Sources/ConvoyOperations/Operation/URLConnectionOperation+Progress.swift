import ConvoySupport
import Foundation

/// Properties and methods that report the progress of a transfer.
extension URLConnectionOperation {
    /// The current progress of the transfer. Available before, during and after the transfer, from any thread.
    public final var transferProgress: TransferProgress {
        core.withLock { core in
            if let attempt = core.attempt { return attempt.progress }
            if let kept = core.keptProgress { return kept }
            var progress = TransferProgress()
            if core.isFinished, let count = core.result.data?.count {
                progress.bytesReceived = Int64(count)
                progress.bytesExpectedToReceive = Int64(count)
            }
            return progress
        }
    }

    /// A sequence of the progress of the transfer. It begins with the current progress, and ends after the final
    /// progress when the operation finishes. Iterate over it once; each access creates a new sequence.
    ///
    /// ```swift
    /// for await progress in operation.transferProgressUpdates { print(progress.fractionCompleted ?? 0) }
    /// ```
    ///
    /// A slow reader misses intermediate values, but never the last one. Iterating does not start the operation. If
    /// nothing has enqueued or started the operation after five seconds, a warning is printed to standard error, once
    /// per process.
    public final var transferProgressUpdates: AsyncStream<TransferProgress> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: TransferProgress.self, bufferingPolicy: .bufferingNewest(1))
        let end = followProgress(
            ProgressFollower(move: { continuation.yield($0) }, end: { continuation.finish() }))
        let isOver = Locked(false)
        continuation.onTermination = { _ in
            isOver.withLock { $0 = true }
            end()
        }
        if isUnclaimed {
            UsageWarning.unstarted.watch { [weak self] in self?.isUnclaimed == true && !isOver.withLock { $0 } }
        }
        return stream
    }

    /// Adds a follower of the progress, called first with the current progress and last with the final progress.
    ///
    /// - Returns: A closure that stops following early.
    package final func followProgress(_ follower: ProgressFollower) -> @Sendable () -> Void {
        declare(.progress)
        return progressReport.follow(self, with: follower)
    }

    /// Calls a handler on the network thread whenever more bytes of a body in memory arrive. The handler must return
    /// quickly, and can request all bytes received so far. Replaces an earlier handler.
    package final func followBody(_ handler: @escaping @Sendable (_ body: () -> Data) -> Void) {
        declare(.progress)
        progressReport.followBody(with: handler)
    }
}

extension HTTPRequestOperation {
    /// Reports the progress in both directions to a handler, if any. Returns the operation.
    @discardableResult
    package final func reporting(to handler: TransferProgress.Handler?) -> Self {
        report(handler, handler)
        return self
    }

    /// Reports the progress in both directions to the report of an async call, if any. Returns the operation.
    @discardableResult
    package final func reporting(to report: TransferProgress.Report?) -> Self { reporting(to: report?.handler) }

    /// Reports the upload progress to one handler and the download progress to another, if any.
    package final func report(_ upload: TransferProgress.Handler?, _ download: TransferProgress.Handler?) {
        func telling(_ handler: @escaping TransferProgress.Handler) -> ProgressHandler {
            { [weak self] _, _, _ in
                if let progress = self?.transferProgress { handler(progress) }
            }
        }
        if let upload { uploadProgressHandler = telling(upload) }
        if let download { downloadProgressHandler = telling(download) }
    }
}

/// The combined progress of several transfers.
extension TransferProgress {
    /// Returns the sum of the progress of operations. The number of expected bytes is known only if it is known for
    /// each operation. A failed or cancelled operation expects no more bytes than it has received.
    public static func sum(of operations: some Sequence<URLConnectionOperation>) -> TransferProgress {
        var sum = TransferProgress()
        var expected: Int64? = 0
        var expectedToSend: Int64 = 0
        for operation in operations {
            let isFinished = operation.isFinished
            let one = operation.transferProgress
            sum.bytesReceived = sum.bytesReceived.adding(one.bytesReceived)
            sum.bytesSent = sum.bytesSent.adding(one.bytesSent)
            let own = isFinished ? one.bytesReceived : one.bytesExpectedToReceive
            expected = own.flatMap { own in expected.map { $0.adding(own) } }
            expectedToSend = expectedToSend.adding(one.bytesExpectedToSend ?? one.bytesSent)
        }
        sum.bytesExpectedToReceive = expected
        if expectedToSend > 0 { sum.bytesExpectedToSend = expectedToSend }
        return sum
    }

    /// Returns a sequence that reads the progress ten times per second. It begins with the current progress and ends
    /// with the final one, when `isOver` returns true.
    static func updates(
        of progress: @escaping @Sendable () -> TransferProgress, until isOver: @escaping @Sendable () -> Bool
    ) -> AsyncStream<TransferProgress> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let task = Task {
                while !Task.isCancelled {
                    let isLast = isOver()
                    continuation.yield(progress())
                    if isLast { break }
                    try? await Task.sleep(nanoseconds: 100_000_000)
                }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }
}
