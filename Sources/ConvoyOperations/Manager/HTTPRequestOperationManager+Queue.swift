import Foundation

/// The manager's queue, without a cast to its class.
extension HTTPRequestOperationManager {
    /// `operationQueue`, as long as it is a `RequestOperationQueue`, as the manager's own is; nil for another of
    /// Foundation's.
    public final var requestOperationQueue: RequestOperationQueue? { operationQueue as? RequestOperationQueue }

    /// How many operations run at a time, at most: 256 in the manager's own queue, unless set.
    public final var maxConcurrentOperationCount: Int {
        get { operationQueue.maxConcurrentOperationCount }
        set { operationQueue.maxConcurrentOperationCount = newValue }
    }

    /// How many operations run at a time for one host, by name and port, at most: 64 in the manager's own queue, unless
    /// set. A queue of Foundation's has no such limit; then it is `Int.max`, and setting it does nothing.
    public final var maxConcurrentOperationCountPerHost: Int {
        get { requestOperationQueue?.maxConcurrentOperationCountPerHost ?? .max }
        set { requestOperationQueue?.maxConcurrentOperationCountPerHost = newValue }
    }

    /// How many operations may start in a second, all hosts together; nil, the default, for any number. A queue of
    /// Foundation's has no such limit; then it is nil, and setting it does nothing. See
    /// `RequestOperationQueue.maximumStartRate`.
    public final var maximumStartRate: StartRate? {
        get { requestOperationQueue?.maximumStartRate }
        set { requestOperationQueue?.maximumStartRate = newValue }
    }

    /// The same for each host. See `RequestOperationQueue.maximumStartRatePerHost`.
    public final var maximumStartRatePerHost: StartRate? {
        get { requestOperationQueue?.maximumStartRatePerHost }
        set { requestOperationQueue?.maximumStartRatePerHost = newValue }
    }

    /// How many operations of the queue have not finished.
    public final var queuedOperationCount: Int {
        requestOperationQueue?.queuedOperationCount ?? operationQueue.operationCount
    }

    /// The operations of the queue that have not finished. Foundation's own list does not show those of a
    /// `RequestOperationQueue`.
    final var queuedOperations: [Operation] {
        let queue = operationQueue
        return (queue as? RequestOperationQueue)?.queuedOperations ?? queue.operations
    }

    /// Cancels all operations of the queue: also those that something else than this manager has put there.
    public final func cancelAllOperations() { operationQueue.cancelAllOperations() }
}
