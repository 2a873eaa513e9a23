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
