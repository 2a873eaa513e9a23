import ConvoySupport
import Foundation
import FoundationNetworking

/// A download that a ``DownloadQueue`` keeps. Its members are those of a ``DownloadOperation``.
public struct DownloadRequest: DurableRequest {
    /// The name of the entry, by which others depend on it.
    public var id = UUID()
    /// The entries that must have finished before.
    public var dependencies: Set<UUID> = []
    /// What happens when one of them has failed. `.hold` by default.
    public var failedDependencyPolicy = FailedDependencyPolicy.hold
    /// The priority of the operation. `.normal` by default.
    public var priority = Operation.QueuePriority.normal
    /// What the program calls it; stored as it is.
    public var tag: String?

    /// A GET without a body. What is stored of it: the URL, the header fields that are no secrets, and `timeoutInterval`.
    public var request: URLRequest
    /// Where the file is to be; nil if only its directory is known.
    public var destination: URL?
    /// The directory in which the file is to be under the name that the server says; nil if the name is known.
    public var directory: URL?

    /// See ``DownloadOperation/existingFilePolicy``.
    public var existingFilePolicy = ExistingFilePolicy.fail
    /// See ``DownloadOperation/usesServerFileName``.
    public var usesServerFileName = true
    /// See ``DownloadOperation/checksums``.
    public var checksums: [Checksum] = []
    /// See ``DownloadOperation/pieceChecksums``.
    public var pieceChecksums: PieceChecksums?
    /// See ``DownloadOperation/expectedLength``. In bytes.
    public var expectedLength: Int64?
    /// See ``DownloadOperation/segmentCount``.
    public var segmentCount = 1
    /// See ``DownloadOperation/minimumSegmentLength``. In bytes.
    public var minimumSegmentLength: Int64 = 1 << 20
    /// See ``DownloadOperation/mirrors``.
    public var mirrors: [URL] = []
    /// See ``DownloadOperation/usesServerMirrors``.
    public var usesServerMirrors = false
    /// Without effect: a queue synchronizes every file before it stores that the file is there. Kept for programs that set
    /// it.
    public var synchronizesFile = false
    /// See ``DownloadOperation/keepsModificationDate``.
    public var keepsModificationDate = true

    /// Whether a URL with a secret in its query is stored with it, as a signed URL of a store in a cloud must be. False by
    /// default: it is refused with ``DownloadQueueError/secretInURL(_:)``. A user name or a password is refused in any case.
    public var storesSecretsInURL = false

    /// A download of a request into a file.
    public init(_ request: URLRequest, destination: URL) {
        self.request = request
        self.destination = destination
    }

    /// A download of a URL into a file.
    public init(_ url: URL, destination: URL) { self.init(URLRequest(url: url), destination: destination) }

    /// A download of a request into a directory, under the name that the server says, or else that of the URL.
    public init(_ request: URLRequest, directory: URL) {
        self.request = request
        self.directory = directory
    }

    /// A download of a URL into a directory.
    public init(_ url: URL, directory: URL) { self.init(URLRequest(url: url), directory: directory) }
}

extension DownloadRequest: StorableRequest {
    package var otherURLs: [URL] { mirrors }
    package var body: OutboxRequest.Body? { nil }

    package func work() throws(DownloadQueueError) -> StoredRequest.Work {
        guard (request.httpMethod ?? "GET") == "GET", request.httpBody == nil, request.httpBodyStream == nil else {
            throw .unsuitableRequest("A download is a GET without a body.")
        }
        guard let place = destination ?? directory, place.isFileURL else {
            throw .unsuitableRequest("It says no file and no directory for what is downloaded.")
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
    /// The name, the method and the URL, without secrets.
    public var customMirror: Mirror { shownMirror }
}

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

    /// Whether the request is sent again where it is unknown whether it has arrived. True by default.
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

    package static let keyField = "Idempotency-Key"
}

extension OutboxRequest: StorableRequest {
    package var otherURLs: [URL] { [] }

    package func work() throws(DownloadQueueError) -> StoredRequest.Work {
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
package protocol StorableRequest: DurableRequest {
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
