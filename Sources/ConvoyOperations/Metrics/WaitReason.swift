/// What an operation waits for, while it does not work.
///
/// It is judged when the operation begins to wait. While it waits for a slot, the limit of its host may come to hold it back
/// as well, and is not told apart from that; only a gate that is closed meanwhile is.
public enum WaitReason: String, Sendable, Hashable, CaseIterable {
    /// Nobody has started it, nor added it to a `RequestOperationQueue`. In a queue of Foundation's, which tells nobody
    /// what it waits for, all waiting is this.
    case start
    /// Operations that it depends on have not finished.
    case dependencies
    /// A barrier of its queue, or what is before that, has not finished.
    case barrier
    /// Its queue is suspended.
    case suspendedQueue
    /// As many operations run in its queue as may at a time.
    case slot
    /// As many operations run for its host as may at a time.
    case hostLimit
    /// As many operations as may in a time were started, in all or for its host.
    case startRate
    /// The gate of its host is closed, as the host has asked for that or refused connections.
    case closedGate
    /// It has failed, and is tried again later.
    case retry
    /// There is no network, and it waits for one.
    case connectivity
    /// A token is being fetched by its `Authenticator`.
    case token
    /// Somebody was asked for a credential.
    case challenge
    /// It is paused.
    case pause
}
