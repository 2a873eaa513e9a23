/// The reason why an operation waits.
///
/// ``ScheduledOperation/waitReason`` is the current reason. In events and metrics, the reason is determined when the
/// operation begins to wait: if the limit of its host is reached while it waits for a slot, the reason does not change;
/// a gate that closes in the meantime is reported.
public enum WaitReason: String, Sendable, Hashable, CaseIterable {
    /// The operation was neither started nor added to a `RequestOperationQueue`. All waiting in a Foundation queue has
    /// this reason, because Foundation does not report what its operations wait for.
    case start
    /// At least one dependency of the operation has not finished.
    case dependencies
    /// The operation's class has declared, with `isReady`, that it is not ready.
    case condition
    /// A barrier of the operation's queue, or an operation before the barrier, has not finished.
    case barrier
    /// The operation's queue is suspended.
    case suspendedQueue
    /// The operation's queue has reached its limit of concurrent operations.
    case slot
    /// The limit of concurrent operations for its host has been reached.
    case hostLimit
    /// The start rate of the queue, in total or for its host, has been reached.
    case startRate
    /// The gate of the operation's host is closed, because the host has requested a delay or has refused connections.
    case closedGate
    /// The operation has failed, and will be retried.
    case retry
    /// The network is unavailable.
    case connectivity
    /// The operation's `Authenticator` is obtaining a token.
    case token
    /// A handler has not yet answered a request for a credential.
    case challenge
    /// The operation is paused.
    case pause
}
