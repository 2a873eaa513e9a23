import Dispatch

/// The queues that all operations share.
package enum OperationQueues {
    /// Where response serializers run, and retry handlers of operations without a `completionQueue`.
    package static let processing = DispatchQueue(label: "Convoy.Processing", attributes: .concurrent)

    /// Where `Progress` objects change: Foundation's are not thread-safe, and several may belong to one tree.
    static let progress = DispatchQueue(label: "Convoy.Progress")

    /// Where notifications are posted, one at a time.
    static let notifications = DispatchQueue(label: "Convoy.Notifications")
}
