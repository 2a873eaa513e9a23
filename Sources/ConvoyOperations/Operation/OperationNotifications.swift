import ConvoyTransport
import Foundation
import Synchronization

extension Notification.Name {
    /// An operation has begun its work; `object` is the operation. Posted on a serial queue of the library, before
    /// `networkingOperationDidFinish` of the same operation, and after that of its dependencies.
    ///
    /// Operations post nothing until the program has read this property or `networkingOperationDidFinish`.
    public static var networkingOperationDidStart: Notification.Name {
        NotificationInterest.exists.store(true, ordering: .relaxed)
        return NotificationInterest.didStart
    }

    /// An operation has finished, its results and its error are final; `object` is the operation. Posted on the same
    /// serial queue as its start, in the order in which the operations finished. Its handlers may run before or after.
    public static var networkingOperationDidFinish: Notification.Name {
        NotificationInterest.exists.store(true, ordering: .relaxed)
        return NotificationInterest.didFinish
    }
}

/// Whether anybody can have subscribed. Posting costs a noticeable part of a request, and most programs do not
/// subscribe. Those that do must read one of the names first.
enum NotificationInterest {
    static let exists = Atomic<Bool>(false)
    static let didStart = Notification.Name("com.alamofire.networking.operation.start")
    static let didFinish = Notification.Name("com.alamofire.networking.operation.finish")

    static var isThere: Bool { exists.load(ordering: .relaxed) }

    /// Posts a notification of an operation after those that were posted before.
    static func post(_ name: Notification.Name, of operation: URLConnectionOperation) {
        CompletionOutbox.post(to: OperationQueues.notifications) {
            NotificationCenter.default.post(name: name, object: operation)
        }
    }
}
