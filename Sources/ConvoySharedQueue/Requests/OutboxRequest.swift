import ConvoySupport
import Foundation
import FoundationNetworking

/// A request that a ``DownloadQueue`` keeps until it has been sent: a POST, PUT, PATCH or DELETE.
///
/// The request has an `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header), which is generated once and
/// stored. A server that supports such keys recognizes a repeated request, and does not process it twice.
///
/// If the process ends or the connection breaks after sending has started, it is unknown whether the request has
/// arrived. By definition, GET, HEAD, PUT and DELETE can be sent again (RFC 9110, section 9.2.2). A POST or PATCH can
/// be sent again because of its key. For a server that ignores the key, set ``sendsAgainWhenUnknown`` to false.
public struct OutboxRequest: DurableRequest {
    /// The body of a request.
    public enum Body: Sendable {
        /// The bytes of the body.
        case data(Data)
        /// A file whose contents are copied when the request is enqueued.
        case file(URL)
    }

    /// The identifier of the entry, with which other entries declare a dependency on it.
    public var id: UUID
    /// The identifiers of the entries that must finish first.
    public var dependencies: Set<UUID> = []
    /// The policy if a dependency has failed. The default is `.hold`.
    public var failedDependencyPolicy = FailedDependencyPolicy.hold
    /// The priority of the operation. The default is `.normal`.
    public var priority = Operation.QueuePriority.normal
    /// A label for use by the program, stored unchanged.
    public var tag: String?

    /// The request. Its method, URL, header fields without secrets, and `timeoutInterval` are stored.
    public var request: URLRequest
    /// The body, kept in a file by the queue; nil for none.
    public var body: Body?

    /// Whether to send the request again if it is unknown whether it has arrived. The default is true.
    ///
    /// If false, the entry becomes ``DownloadQueue/State/outcomeUnknown`` in that case, and is not sent again until it
    /// is retried. Once the entry has started, it cannot be paused either.
    public var sendsAgainWhenUnknown = true

    /// Whether to store a URL with a secret in its query. The default is false: such a URL is rejected with
    /// ``DownloadQueueError/secretInURL(_:)``. A user name or password is always rejected.
    public var storesSecretsInURL = false

    /// Creates a request with a body, which replaces that of the request.
    public init(_ request: URLRequest, body: Body? = nil) {
        self.id = UUID()
        self.request = request
        self.body = body ?? request.httpBody.map { .data($0) }
        self.request.httpBody = nil
        if request.value(forHTTPHeaderField: Self.keyField) == nil {
            // The draft requires a string as defined in RFC 8941.
            self.request.setValue("\"\(UUID().uuidString.lowercased())\"", forHTTPHeaderField: Self.keyField)
        }
    }

    /// The value of the `Idempotency-Key`: that of the request if it has one, otherwise a new UUID.
    public var idempotencyKey: String { request.value(forHTTPHeaderField: Self.keyField) ?? "" }

    package static let keyField = "Idempotency-Key"
}

extension OutboxRequest: StorableRequest {
    package var otherURLs: [URL] { [] }

    package func work() throws(DownloadQueueError) -> StoredRequest.Work {
        guard request.httpBodyStream == nil, request.httpBody == nil else {
            throw .unsuitableRequest("The body must be set as data or a file, not in the request.")
        }
        return .send(StoredSending(body: nil, sendsAgain: sendsAgainWhenUnknown))
    }
}

extension OutboxRequest: OpaqueReflectable {
    package var shownChildren: KeyValuePairs<String, Any> { shownProperties }
}
