import Dispatch

/// The queues that all operations share.
enum OperationQueues {
    /// Where response serializers run, and users' decisions that have no queue of their own.
    static let processing = DispatchQueue(label: "Convoy.Processing", attributes: .concurrent)

    /// Where `Progress` objects change: Foundation's are not safe for threads, and may hang together in one tree.
    static let progress = DispatchQueue(label: "Convoy.Progress")
}
