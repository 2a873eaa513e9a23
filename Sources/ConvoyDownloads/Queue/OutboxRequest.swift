import Foundation
import FoundationNetworking

/// A request that sends something, and that a ``DownloadQueue`` keeps until it was sent: a POST, PUT, PATCH or DELETE.
///
/// It has an `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header), which is made once, and stored: by it a server
/// that knows such keys recognizes a request that comes a second time, and does not carry it out again.
///
/// Whether a request has arrived is unknown where a process ends, or a connection breaks, after it has begun to be sent.
/// GET, HEAD, PUT and DELETE may be sent again by their definition (RFC 9110, section 9.2.2), a POST or PATCH because of
/// its key. For a server that ignores the key, set ``sendsAgainWhenUnknown`` to false.
public struct OutboxRequest: DurableRequest {
    /// What is sent.
    public enum Body: Sendable {
        /// These bytes.
        case data(Data)
        /// The contents of a file, which is copied when the request is enqueued.
        case file(URL)
    }

    /// The name of the entry, by which others depend on it.
    public var id: UUID
    /// The entries that must have finished before.
    public var dependencies: Set<UUID> = []
    /// What happens when one of them has failed. `.hold` by default.
    public var failedDependencyPolicy = FailedDependencyPolicy.hold
    /// The priority of the operation. `.normal` by default.
    public var priority = Operation.QueuePriority.normal
    /// What the program calls it; stored as it is.
    public var tag: String?

    /// The request. What is stored of it: the method, the URL, the header fields that are no secrets, and `timeoutInterval`.
    public var request: URLRequest
    /// What is sent; nil for nothing. Kept in a file of the queue's.
    public var body: Body?

    /// Whether the request is sent again where nobody knows whether it has arrived. True by default.
    ///
    /// If it is false, the entry becomes ``DownloadQueue/State/outcomeUnknown`` then, and is not sent again until it is
    /// retried. It is not paused either, once it has begun.
    public var sendsAgainWhenUnknown = true

    /// Whether a URL with a secret in its query is stored with it. False by default: it is refused with
    /// ``DownloadQueueError/secretInURL(_:)``. A user name or a password is refused in any case.
    public var storesSecretsInURL = false

    /// A request with a body, which takes the place of the request's own.
    public init(_ request: URLRequest, body: Body? = nil) {
        self.id = UUID()
        self.request = request
        self.body = body ?? request.httpBody.map { .data($0) }
        self.request.httpBody = nil
        if request.value(forHTTPHeaderField: Self.keyField) == nil {
            // A string in the sense of RFC 8941, as the draft demands.
            self.request.setValue("\"\(UUID().uuidString.lowercased())\"", forHTTPHeaderField: Self.keyField)
        }
    }

    /// The value of the `Idempotency-Key`: that of the request, or else a new UUID.
    public var idempotencyKey: String { request.value(forHTTPHeaderField: Self.keyField) ?? "" }

    static let keyField = "Idempotency-Key"
}

extension OutboxRequest: StorableRequest {
    var otherURLs: [URL] { [] }

    func work() throws(DownloadQueueError) -> StoredRequest.Work {
        guard request.httpBodyStream == nil, request.httpBody == nil else {
            throw .unsuitableRequest("A body is given as data or as a file, not in the request.")
        }
        return .send(StoredSending(body: nil, sendsAgain: sendsAgainWhenUnknown))
    }
}

extension OutboxRequest: CustomReflectable {
    /// The name, the method and the URL, without secrets.
    public var customMirror: Mirror { shownMirror }
}
