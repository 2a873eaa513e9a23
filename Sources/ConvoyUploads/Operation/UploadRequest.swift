import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// An upload of a file that a `DownloadQueue` keeps, and that survives the process. Its members are those of an
/// ``UploadOperation``.
///
/// ```swift
/// try await queue.enqueue([UploadRequest(URLRequest(url: files), file: film)])
/// ```
///
/// The file stays where it is, and must not change until it was sent. What is stored is as for a `DownloadRequest`: header
/// fields that hold secrets are not.
public struct UploadRequest: DurableRequest {
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

    /// A request without a body. What is stored of it: the method, the URL, the header fields that are no secrets, and
    /// `timeoutInterval`.
    public var request: URLRequest
    /// The file that is sent.
    public var file: URL

    /// See ``UploadOperation/uploadProtocol``.
    public var uploadProtocol = UploadProtocol.automatic
    /// See ``UploadOperation/chunkSize``: the largest chunk in bytes, and nil for a size that adapts.
    public var chunkLength: Int64?
    /// See ``UploadOperation/parallelPartCount``.
    public var parallelPartCount = 1
    /// See ``UploadOperation/resumption``: whether an upload that the server does not have any more begins anew. True by
    /// default.
    public var restartsWhenGone = true
    /// See ``UploadOperation/checksum``.
    public var checksum: Checksum?
    /// See ``UploadOperation/chunkChecksumAlgorithm``.
    public var chunkChecksumAlgorithm: ChecksumAlgorithm?
    /// See ``UploadOperation/metadata``. Stored as it is: no place for secrets.
    public var metadata: [String: String] = [:]

    /// Whether a URL with a secret in its query is stored with it. False by default: it is refused with
    /// `DownloadQueueError.secretInURL`. A user name or a password is refused in any case.
    public var storesSecretsInURL = false

    /// An upload of a file.
    public init(_ request: URLRequest, file: URL) { (self.request, self.file) = (request, file) }
}

extension UploadRequest: StorableRequest {
    package var otherURLs: [URL] { [] }
    package var body: OutboxRequest.Body? { nil }

    package func work() throws(DownloadQueueError) -> StoredRequest.Work {
        guard request.httpBody == nil, request.httpBodyStream == nil else {
            throw .unsuitableRequest("An upload has no body but its file.")
        }
        guard file.isFileURL else { throw .unsuitableRequest("It names no file that is to be sent.") }
        let options = StoredUploadOptions(
            uploadProtocol: uploadProtocol, chunk: chunkLength, parts: parallelPartCount, restarts: restartsWhenGone,
            checksum: checksum?.description, chunkChecksum: chunkChecksumAlgorithm?.rawValue, metadata: metadata)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        guard let data = try? encoder.encode(options) else {
            throw .unsuitableRequest("What is said of the upload cannot be stored.")
        }
        return .upload(StoredUpload(file: file.absoluteURL.standardizedFileURL, options: data))
    }

    /// An operation for what is stored, outside a queue.
    package static func operation(
        _ request: URLRequest, _ upload: StoredUpload
    ) throws(DownloadQueueError) -> UploadOperation {
        let operation = UploadOperation(request: request, file: upload.file)
        try StoredUploadOptions.apply(upload, to: operation)
        return operation
    }
}

extension UploadRequest: CustomReflectable {
    /// The name, the method and the URL, without secrets.
    public var customMirror: Mirror {
        let url = Redaction.url(request.url?.absoluteString ?? "")
        return Mirror(self, children: ["id": id, "method": request.httpMethod ?? "GET", "url": url, "file": file.path])
    }
}

/// What is stored of an upload's settings.
private struct StoredUploadOptions: Codable {
    var uploadProtocol: UploadProtocol
    var chunk: Int64?
    var parts: Int
    var restarts: Bool
    var checksum: String?
    var chunkChecksum: String?
    var metadata: [String: String]

    /// Sets an operation up. What cannot be read is an error: nothing must be sent without the check that it was to have.
    static func apply(_ upload: StoredUpload, to operation: UploadOperation) throws(DownloadQueueError) {
        guard let options = try? JSONDecoder().decode(Self.self, from: upload.options) else {
            throw .unsuitableRequest("What is stored of the upload cannot be read.")
        }
        operation.uploadProtocol = options.uploadProtocol
        if let chunk = options.chunk { operation.chunkSize = .fixed(chunk) }
        operation.parallelPartCount = options.parts
        operation.resumption = options.restarts ? .resumeOrRestart : .resume
        operation.metadata = options.metadata
        if let text = options.checksum {
            guard let checksum = try? Checksum(parsing: text) else {
                throw .unsuitableRequest("The checksum of the upload cannot be read.")
            }
            operation.checksum = checksum
        }
        if let text = options.chunkChecksum {
            guard let algorithm = ChecksumAlgorithm(rawValue: text) else {
                throw .unsuitableRequest("The checksum of the upload's chunks cannot be read.")
            }
            operation.chunkChecksumAlgorithm = algorithm
        }
    }
}

/// Makes the uploads of queues. Found by its name: see `QueuedUploads`.
final class QueuedUploadMaker: QueuedUploadMaking {
    static func queuedOperation(
        _ request: URLRequest, _ upload: StoredUpload
    ) throws(DownloadQueueError) -> any QueuedOperation {
        let operation = QueuedUploadOperation(request: request)
        operation.set(\.source, .file(upload.file))
        try StoredUploadOptions.apply(upload, to: operation)
        return operation
    }

    static func removeLeftovers(of upload: StoredUpload, for url: URL) {
        // The operation that has ended lets go of the journal on another thread.
        for _ in 0..<100 {
            do throws(UploadError) {
                return try UploadOperation.removeJournal(of: upload.file, for: url)
            } catch {
                guard error.reason == .inUse else { return }
                usleep(10_000)
            }
        }
    }
}

/// An upload of an entry of a queue.
private final class QueuedUploadOperation: UploadOperation, QueuedOperation, @unchecked Sendable {
    let link = QueueLink()

    override func start() { link.start(self) { self.startNow() } }
    override func pause() { link.setPaused(true, self) { pauseNow() } }
    override func resume() { link.setPaused(false, self) { resumeNow() } }
    override func cancel() { link.cancel(self) { cancelNow() } }

    private func startNow() { super.start() }
    func pauseNow() { super.pause() }
    func resumeNow() { super.resume() }
    private func cancelNow() { super.cancel() }

    var bytes: (done: Int64, expected: Int64?) {
        let progress = uploadProgress
        return (progress.bytesConfirmed, progress.bytesExpected)
    }
    var finishedFile: URL? { nil }
}
