import ConvoySupport
import Foundation
import FoundationNetworking

/// A download for a ``DownloadQueue``. Its members correspond to those of ``DownloadOperation``.
public struct DownloadRequest: DurableRequest {
    /// The identifier of the entry, with which other entries declare a dependency on it.
    public var id = UUID()
    /// The identifiers of the entries that must finish first.
    public var dependencies: Set<UUID> = []
    /// The policy if a dependency has failed. The default is `.hold`.
    public var failedDependencyPolicy = FailedDependencyPolicy.hold
    /// The priority of the operation. The default is `.normal`.
    public var priority = Operation.QueuePriority.normal
    /// A label for use by the program, stored unchanged.
    public var tag: String?

    /// A GET request without a body. Its URL, its header fields without secrets, and `timeoutInterval` are stored.
    public var request: URLRequest
    /// The destination; nil if only its directory is known.
    public var destination: URL?
    /// The directory for a file named by the server; nil if the name is known.
    public var directory: URL?

    /// The behaviour if the destination exists; see ``DownloadOperation/existingFilePolicy``.
    public var existingFilePolicy = ExistingFilePolicy.fail
    /// Whether to use the name suggested by the server; see ``DownloadOperation/usesServerFileName``.
    public var usesServerFileName = true
    /// The expected digests of the file; see ``DownloadOperation/checksums``.
    public var checksums: [Checksum] = []
    /// The digests of the file's pieces; see ``DownloadOperation/pieceChecksums``.
    public var pieceChecksums: PieceChecksums?
    /// The expected length of the file, in bytes; see ``DownloadOperation/expectedLength``.
    public var expectedLength: Int64?
    /// The number of connections; see ``DownloadOperation/segmentCount``.
    public var segmentCount = 1
    /// The minimum length of a segment, in bytes; see ``DownloadOperation/minimumSegmentLength``.
    public var minimumSegmentLength: Int64 = 1 << 20
    /// Other URLs of the same file; see ``DownloadOperation/mirrors``.
    public var mirrors: [URL] = []
    /// Whether to also use the mirrors that the server lists; see ``DownloadOperation/usesServerMirrors``.
    public var usesServerMirrors = false
    /// A setting without effect, because a queue synchronizes every file before it records that the file exists. It is
    /// kept for source compatibility.
    public var synchronizesFile = false
    /// Whether the file gets the modification time in `Last-Modified`; see ``DownloadOperation/keepsModificationDate``.
    public var keepsModificationDate = true

    /// Whether to store a URL with a secret in its query, such as a signed URL of cloud storage. The default is false:
    /// such a URL is rejected with ``DownloadQueueError/secretInURL(_:)``. A user name or password is always rejected.
    public var storesSecretsInURL = false

    /// Creates a download of a request to a file.
    public init(_ request: URLRequest, destination: URL) {
        self.request = request
        self.destination = destination
    }

    /// Creates a download of a URL to a file.
    public init(_ url: URL, destination: URL) { self.init(URLRequest(url: url), destination: destination) }

    /// Creates a download of a request to a directory, under the name suggested by the server or that in the URL.
    public init(_ request: URLRequest, directory: URL) {
        self.request = request
        self.directory = directory
    }

    /// Creates a download of a URL to a directory.
    public init(_ url: URL, directory: URL) { self.init(URLRequest(url: url), directory: directory) }
}

extension DownloadRequest: StorableRequest {
    package var otherURLs: [URL] { mirrors }
    package var body: OutboxRequest.Body? { nil }

    package func work() throws(DownloadQueueError) -> StoredRequest.Work {
        guard (request.httpMethod ?? "GET") == "GET", request.httpBody == nil, request.httpBodyStream == nil else {
            throw .unsuitableRequest("A download must be a GET request without a body.")
        }
        guard let place = destination ?? directory, place.isFileURL else {
            throw .unsuitableRequest("Set a destination or a directory, as a file URL.")
        }
        var options = StoredDownload.Options()
        options.existing = existingFilePolicy
        options.usesServerFileName = usesServerFileName
        options.checksums = checksums.map(\.description)
        options.pieceLength = pieceChecksums?.length
        options.pieces = pieceChecksums?.checksums.map(\.description)
        options.expectedLength = expectedLength
        options.segments = segmentCount
        options.minimumSegment = minimumSegmentLength
        options.mirrors = mirrors.map { $0.absoluteURL.absoluteString }
        options.usesServerMirrors = usesServerMirrors
        options.synchronizes = synchronizesFile
        options.keepsModificationDate = keepsModificationDate
        return .download(
            StoredDownload(place: place.absoluteURL.standardizedFileURL, isDirectory: destination == nil, options: options))
    }
}

extension DownloadRequest: CustomReflectable {
    /// A mirror with the identifier, the method and the URL, without secrets.
    public var customMirror: Mirror { shownMirror }
}

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

extension OutboxRequest: CustomReflectable {
    /// A mirror with the identifier, the method and the URL, without secrets.
    public var customMirror: Mirror { shownMirror }
}

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
    /// A mirror for `dump` with the identifier, the method and the URL, without secrets.
    var shownMirror: Mirror {
        let url = Redaction.url(request.url?.absoluteString ?? "")
        return Mirror(self, children: ["id": id, "method": request.httpMethod ?? "GET", "url": url])
    }
}
