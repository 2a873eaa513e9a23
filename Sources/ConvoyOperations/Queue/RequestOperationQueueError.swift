/// Why a ``RequestOperationQueue`` refused or cancelled an operation.
public enum RequestOperationQueueError: Error, Hashable, Sendable {
    /// The queue was full, and its policy is ``RequestOperationQueue/OverflowPolicy/refuse``.
    case refused(maximumLength: Int)
    /// The queue was full when another operation was added, and this one was the oldest that had not been started.
    case dropped(maximumLength: Int)
}
