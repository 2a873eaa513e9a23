import Foundation

/// The progress of several transfers, in bytes.
extension TransferProgress {
    /// The progress of operations taken together: the sums of their bytes. How many bytes are expected is known when it is
    /// known of each; an operation that has failed or was cancelled expects no more than it has.
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

    /// Reads a progress ten times a second until it is over: first as it is now, last as it is in the end.
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
    /// The sum, or the largest number where that is too small for it.
    fileprivate func adding(_ other: Int64) -> Int64 {
        let (sum, isTooLarge) = addingReportingOverflow(other)
        return isTooLarge ? .max : sum
    }
}
