import ConvoySupport
import ConvoyTransport
import Dispatch
import Foundation

extension Notification.Name {
    /// Posted when an operation has begun its work; `object` is the operation. Posted to `NotificationCenter.default`
    /// on an internal serial queue, before the finish of the same operation and after the finish of all operations that
    /// it depends on.
    ///
    /// The raw value is the same as in AFNetworking. Posted only if the manager or the operation has
    /// `postsNotifications` set.
    public static let networkingOperationDidStart = Notification.Name("com.alamofire.networking.operation.start")

    /// Posted when an operation has finished, with final results and error; `object` is the operation. Posted on the
    /// same serial queue as the start, in the order in which the operations finished. The operation's handlers may run
    /// before or after the notification.
    ///
    /// The raw value is the same as in AFNetworking. Posted only if the manager or the operation has
    /// `postsNotifications` set.
    public static let networkingOperationDidFinish = Notification.Name("com.alamofire.networking.operation.finish")
}

/// The notifications of all operations, in order.
///
/// Observers are user code, and run neither on the network thread nor under a lock. The queue is woken once for all
/// notifications that arrive before it runs, because waking it costs more than a post.
enum OperationNotifications {
    private typealias Entry = (name: Notification.Name, operation: Operation)

    private static let waiting = ContendedLock<[Entry]>([])

    /// Posts a notification after all earlier ones.
    static func post(_ name: Notification.Name, of operation: Operation) {
        let isFirst = waiting.withLock { waiting in
            waiting.append((name, operation))
            return waiting.count == 1
        }
        if isFirst { CompletionOutbox.post(to: OperationQueues.notifications) { postAll() } }
    }

    /// Posts the waiting notifications. Called on their queue.
    private static func postAll() {
        var taken: [Entry] = []
        waiting.withLock { swap(&$0, &taken) }
        for (name, operation) in taken { NotificationCenter.default.post(name: name, object: operation) }
    }
}
