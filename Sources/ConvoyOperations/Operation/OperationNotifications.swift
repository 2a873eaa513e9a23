import ConvoySupport
import ConvoyTransport
import Foundation

extension Notification.Name {
    /// An operation has begun its work; `object` is the operation. Posted to `NotificationCenter.default` on a serial queue
    /// of the library's own, before the end of the same operation, and after the end of all that it depends on.
    ///
    /// Its text is that of AFNetworking's name.
    public static let networkingOperationDidStart = Notification.Name("com.alamofire.networking.operation.start")

    /// An operation has finished, its results and its error are final; `object` is the operation. Posted on the same
    /// serial queue as its start, in the order in which the operations finished. Its handlers may run before or after.
    ///
    /// Its text is that of AFNetworking's name.
    public static let networkingOperationDidFinish = Notification.Name("com.alamofire.networking.operation.finish")
}

/// The notifications of all operations, in the order in which they are to be posted.
///
/// Observers are a user's code, and run neither on the network thread nor under a lock. The queue is woken once for all
/// that comes until it is done with what it has: to wake it costs more than a post.
enum OperationNotifications {
    private struct Waiting {
        var notifications: [(isEnd: Bool, operation: URLConnectionOperation)] = []
        /// Whether the queue has been told, and will look once more.
        var isNoticed = false
    }

    private static let waiting = ContendedLock(Waiting())

    /// Posts the notification of a start or an end after those that were posted before.
    static func post(_ isEnd: Bool, of operation: URLConnectionOperation) {
        let isFirst = waiting.withLock { waiting in
            waiting.notifications.append((isEnd, operation))
            defer { waiting.isNoticed = true }
            return !waiting.isNoticed
        }
        if isFirst { CompletionOutbox.post(to: OperationQueues.notifications) { postAll() } }
    }

    private static func postAll() {
        let center = NotificationCenter.default
        while true {
            let taken = waiting.withLock { waiting in
                let taken = waiting.notifications
                waiting.notifications = []
                if taken.isEmpty { waiting.isNoticed = false }
                return taken
            }
            guard !taken.isEmpty else { return }
            for (isEnd, operation) in taken {
                let name: Notification.Name = isEnd ? .networkingOperationDidFinish : .networkingOperationDidStart
                center.post(name: name, object: operation)
            }
        }
    }
}
