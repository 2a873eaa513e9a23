/// Why a ``RequestOperationQueue`` did not take an operation, or cancelled it.
public enum RequestOperationQueueError: Error, Hashable, Sendable {
    /// The queue was full, and its policy is ``RequestOperationQueue/OverflowPolicy/refuse``.
    case refused(maximumLength: Int)
    /// The queue was full, and the operation was the oldest not yet started one when another came.
    case dropped(maximumLength: Int)
}
