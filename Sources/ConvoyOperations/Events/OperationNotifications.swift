import ConvoySupport
import ConvoyTransport
import Dispatch
import Foundation
import Synchronization

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
/// notifications that arrive before it has posted them, because waking it costs more than a post.
enum OperationNotifications {
    private typealias Entry = (name: Notification.Name, operation: Operation)

    private static let waiting = ContendedLock<[Entry]>([])
    /// The number of notifications that are waiting or being posted.
    private static let count = Atomic<Int>(0)
    private static let poster = Poster()

    /// Posts a notification after all earlier ones.
    static func post(_ name: Notification.Name, of operation: Operation) {
        waiting.withLock { $0.append((name, operation)) }
        let isFirst = count.add(1, ordering: .sequentiallyConsistent).oldValue == 0
        if isFirst { CompletionOutbox.post(to: OperationQueues.notifications) { poster.postAll() } }
    }

    /// The object that posts the notifications on their queue.
    private final class Poster: @unchecked Sendable {
        /// The entries being posted, whose memory is reused so that most posts allocate nothing. The array is used only
        /// on the queue.
        @exclusivity(unchecked) private var taken: [Entry] = []

        /// The maximum number of entries for which memory is kept.
        private static let mostKept = 1024

        func postAll() {
            let center = NotificationCenter.default
            var left = 0
            repeat {
                waiting.withLock { swap(&$0, &taken) }
                for (name, operation) in taken { center.post(name: name, object: operation) }
                let posted = taken.count
                if posted > Self.mostKept { taken = [] } else { taken.removeAll(keepingCapacity: true) }
                left = count.subtract(posted, ordering: .sequentiallyConsistent).newValue
            } while left > 0
        }
    }
}
