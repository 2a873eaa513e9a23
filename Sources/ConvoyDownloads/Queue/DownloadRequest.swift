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
    var otherURLs: [URL] { mirrors }
    var body: OutboxRequest.Body? { nil }

    func work() throws(DownloadQueueError) -> StoredRequest.Work {
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
