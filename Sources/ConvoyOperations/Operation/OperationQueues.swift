import Dispatch

/// The queues that all operations share.
enum OperationQueues {
    /// Where response serializers run, and handlers of retries that have no queue of their own.
    static let processing = DispatchQueue(label: "Convoy.Processing", attributes: .concurrent)

    /// Where `Progress` objects change: Foundation's are not safe for threads, and may hang together in one tree.
    static let progress = DispatchQueue(label: "Convoy.Progress")

    /// Where notifications are posted, one after the other.
    static let notifications = DispatchQueue(label: "Convoy.Notifications")
}
