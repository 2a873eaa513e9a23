import Dispatch

/// The queues shared by all operations.
package enum OperationQueues {
    /// The queue of response serializers, and of the retry handlers of operations without a `completionQueue`.
    package static let processing = DispatchQueue(label: "Convoy.Processing", attributes: .concurrent)

    /// The queue on which `Progress` objects are updated. It is serial and shared because Foundation's class is not
    /// thread-safe and several objects may belong to one tree.
    static let progress = DispatchQueue(label: "Convoy.Progress")

    /// The queue on which notifications are posted.
    static let notifications = DispatchQueue(label: "Convoy.Notifications")
}

extension DispatchQueue {
    /// The main queue, for a handler that is about to be submitted and has no other queue. Reading this property checks
    /// whether anything runs the main queue.
    package static var mainForHandlers: DispatchQueue {
        let main = DispatchQueue.main
        UsageWarning.mainQueue.probe(main)
        return main
    }
}
