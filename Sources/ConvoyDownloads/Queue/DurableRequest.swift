import ConvoySupport
import Foundation
import FoundationNetworking

/// A request that a ``DownloadQueue`` keeps: a ``DownloadRequest`` or an ``OutboxRequest``. Other types are refused.
public protocol DurableRequest: Sendable {
    /// What the entry is known by, in this process and in later ones. Random, unless set before it is enqueued.
    var id: UUID { get set }
    /// The entries that must have finished before this one starts: those in the queue already, or enqueued together with it.
    var dependencies: Set<UUID> { get set }
    /// What happens when one of the dependencies has failed, or was cancelled.
    var failedDependencyPolicy: FailedDependencyPolicy { get set }
    /// Which of the entries that could start comes first.
    var priority: Operation.QueuePriority { get set }
    /// A text for your own use, by which a later process knows what the entry is for. It is stored as it is: no place for
    /// secrets.
    var tag: String? { get set }
}

/// What a ``DownloadQueue`` does with an entry of which a dependency has failed or was cancelled.
public enum FailedDependencyPolicy: Int, Sendable, Hashable, CaseIterable {
    /// The entry is ``DownloadQueue/State/blocked`` until the dependency has succeeded after all, or until it is itself
    /// retried, which lets it run without.
    case hold = 0
    /// The entry runs, as in AFNetworking and in Foundation.
    case run = 1
    /// The entry fails too.
    case fail = 2
}

/// A request that can be stored.
protocol StorableRequest: DurableRequest {
    var request: URLRequest { get }
    var storesSecretsInURL: Bool { get }
    /// The other URLs that are stored.
    var otherURLs: [URL] { get }
    func work() throws(DownloadQueueError) -> StoredRequest.Work
    /// What is to be sent; nil for nothing.
    var body: OutboxRequest.Body? { get }
}

extension StorableRequest {
    /// What `dump` prints.
    var shownMirror: Mirror {
        let url = Redaction.url(request.url?.absoluteString ?? "")
        return Mirror(self, children: ["id": id, "method": request.httpMethod ?? "GET", "url": url])
    }
}
