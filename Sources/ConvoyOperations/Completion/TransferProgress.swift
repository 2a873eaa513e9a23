import ConvoySupport
import Foundation
import Synchronization

/// A snapshot of the progress of an operation's transfer.
public struct TransferProgress: Sendable, Hashable {
    /// The number of bytes of the response body received, including the bytes kept across a pause.
    public var bytesReceived: Int64 = 0
    /// The total number of bytes expected. nil while unknown: before the head of the response arrives, and for a body
    /// that is encoded or has no length. After success, this is the number of bytes received.
    public var bytesExpectedToReceive: Int64?
    /// The number of bytes of the request body sent in the current or last attempt.
    public var bytesSent: Int64 = 0
    /// The total number of bytes to send; nil before the first byte is sent, and for a body without a length.
    public var bytesExpectedToSend: Int64?

    /// The fraction of the expected bytes transferred in both directions, from 0 to 1; nil while no total is known. It
    /// decreases when the response to an upload announces a body, or when a transfer starts over.
    public var fractionCompleted: Double? {
        guard bytesExpectedToReceive != nil || bytesExpectedToSend != nil else { return nil }
        var (done, expected) = (0.0, 0.0)
        for case (let bytes, let total?) in [(bytesReceived, bytesExpectedToReceive), (bytesSent, bytesExpectedToSend)] {
            done += Double(bytes)
            expected += Double(total)
        }
        return expected > 0 ? min(1, done / expected) : 1
    }

    /// Creates the progress of a transfer that has not moved any bytes.
    package init() {}
}

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

extension TransferProgress {
    /// A closure called with the progress when bytes have been transferred and the queue of the operation's handlers is
    /// free.
    public typealias Handler = @Sendable (TransferProgress) -> Void

    /// The progress handler of an async call. It is not a closure, so that a trailing closure after a call is always
    /// `success` or the parts of a form, regardless of the number of its parameters.
    ///
    /// ```swift
    /// let film: Data = try await manager.get("film", progress: .to { print($0.fractionCompleted ?? 0) })
    /// ```
    public struct Report: Sendable {
        let handler: Handler

        /// Calls a handler on the operation's `completionQueue` whenever bytes have been transferred and the queue is
        /// free.
        public static func to(_ handler: @escaping Handler) -> Report { Report(handler: handler) }
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

/// The receiver of a transfer's progress. Both closures may be called on any thread, and must return quickly.
package struct ProgressFollower: Sendable {
    /// The closure called when bytes have been transferred.
    let move: @Sendable (TransferProgress) -> Void
    /// The closure called after the final progress.
    let end: @Sendable () -> Void

    package init(move: @escaping @Sendable (TransferProgress) -> Void, end: @escaping @Sendable () -> Void) {
        self.move = move
        self.end = end
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

extension Int64 {
    /// Returns the sum, or `Int64.max` if it overflows.
    func adding(_ other: Int64) -> Int64 {
        let (sum, isTooLarge) = addingReportingOverflow(other)
        return isTooLarge ? .max : sum
    }
}

/// The byte counts of a transfer, readable from any thread; -1 if unknown.
struct TransferCounts: ~Copyable {
    let bytesReceived: Atomic<Int64>
    let bytesExpectedToReceive: Atomic<Int64>
    let bytesSent: Atomic<Int64>
    let bytesExpectedToSend: Atomic<Int64>

    /// - Parameter progress: The progress of the previous attempt.
    init(_ progress: TransferProgress?) {
        bytesReceived = Atomic(progress?.bytesReceived ?? 0)
        bytesExpectedToReceive = Atomic(progress?.bytesExpectedToReceive ?? -1)
        bytesSent = Atomic(progress?.bytesSent ?? 0)
        bytesExpectedToSend = Atomic(progress?.bytesExpectedToSend ?? -1)
    }

    var progress: TransferProgress {
        func known(_ number: Int64) -> Int64? { number < 0 ? nil : number }
        var progress = TransferProgress()
        progress.bytesReceived = bytesReceived.load(ordering: .relaxed)
        progress.bytesExpectedToReceive = known(bytesExpectedToReceive.load(ordering: .relaxed))
        progress.bytesSent = bytesSent.load(ordering: .relaxed)
        progress.bytesExpectedToSend = known(bytesExpectedToSend.load(ordering: .relaxed))
        return progress
    }
}
