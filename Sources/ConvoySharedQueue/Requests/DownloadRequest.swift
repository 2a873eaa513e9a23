import ConvoyDownloads
import ConvoySupport
import Foundation
import FoundationNetworking

/// A download for a ``DownloadQueue``. Its members correspond to those of `DownloadOperation`.
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

    /// The behaviour if the destination exists; see `DownloadOperation.existingFilePolicy`.
    public var existingFilePolicy = ExistingFilePolicy.fail
    /// Whether to use the name suggested by the server; see `DownloadOperation.usesServerFileName`.
    public var usesServerFileName = true
    /// The expected digests of the file; see `DownloadOperation.checksums`.
    public var checksums: [Checksum] = []
    /// The digests of the file's pieces; see `DownloadOperation.pieceChecksums`.
    public var pieceChecksums: PieceChecksums?
    /// The expected length of the file, in bytes; see `DownloadOperation.expectedLength`.
    public var expectedLength: Int64?
    /// The number of connections; see `DownloadOperation.segmentCount`.
    public var segmentCount = 1
    /// The minimum length of a segment, in bytes; see `DownloadOperation.minimumSegmentLength`.
    public var minimumSegmentLength: Int64 = 1 << 20
    /// Other URLs of the same file; see `DownloadOperation.mirrors`.
    public var mirrors: [URL] = []
    /// Whether to also use the mirrors that the server lists; see `DownloadOperation.usesServerMirrors`.
    public var usesServerMirrors = false
    /// A setting without effect, because a queue synchronizes every file before it records that the file exists. It is
    /// kept for source compatibility.
    public var synchronizesFile = false
    /// Whether the file gets the modification time in `Last-Modified`; see `DownloadOperation.keepsModificationDate`.
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

extension DownloadRequest: OpaqueReflectable {
    package var shownChildren: KeyValuePairs<String, Any> { shownProperties }
}
