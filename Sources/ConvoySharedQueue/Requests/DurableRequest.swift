import ConvoySupport
import Foundation
import FoundationNetworking

/// A request for a ``DownloadQueue``: a ``DownloadRequest`` or an ``OutboxRequest``. Other types are rejected.
public protocol DurableRequest: Sendable {
    /// The identifier of the entry, in this process and later ones. It is random unless set before enqueuing.
    var id: UUID { get set }
    /// The identifiers of the entries that must finish before this one starts. Those entries must already be in the
    /// queue, or be enqueued together with this one.
    var dependencies: Set<UUID> { get set }
    /// The policy if a dependency failed or was cancelled.
    var failedDependencyPolicy: FailedDependencyPolicy { get set }
    /// The priority among the entries that are ready to start.
    var priority: Operation.QueuePriority { get set }
    /// A label for use by the program, by which a later process can recognize the purpose of the entry. The label is
    /// stored unchanged, so do not put secrets in it.
    var tag: String? { get set }
}

/// The policy of a ``DownloadQueue`` for an entry with a dependency that failed or was cancelled.
public enum FailedDependencyPolicy: Int, Sendable, Hashable, CaseIterable {
    /// The entry is ``DownloadQueue/State/blocked`` until a retry of the dependency succeeds, or until the entry itself
    /// is retried, which runs it without the dependency.
    case hold = 0
    /// The entry runs, as in AFNetworking and in Foundation.
    case run = 1
    /// The entry fails as well.
    case fail = 2
}

/// A request that can be stored.
package protocol StorableRequest: DurableRequest {
    var request: URLRequest { get }
    var storesSecretsInURL: Bool { get }
    /// The URLs to store in addition to that of the request.
    var otherURLs: [URL] { get }
    func work() throws(DownloadQueueError) -> StoredRequest.Work
    /// The body to send; nil for none.
    var body: OutboxRequest.Body? { get }
}

extension StorableRequest {
    /// The identifier, the method and the URL, without secrets.
    var shownProperties: KeyValuePairs<String, Any> {
        let url = Redaction.url(request.url?.absoluteString ?? "")
        return ["id": id, "method": request.httpMethod ?? "GET", "url": url]
    }
}
