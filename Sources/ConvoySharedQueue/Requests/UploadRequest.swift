import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// An upload of a file for a ``DownloadQueue``, which survives the process. Its members correspond to those of
/// `UploadOperation`.
///
/// ```swift
/// try await queue.enqueue([UploadRequest(URLRequest(url: files), file: film)])
/// ```
///
/// The file is not copied, and must not change until it has been sent. As with a ``DownloadRequest``, header fields with
/// secrets are not stored.
public struct UploadRequest: DurableRequest {
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

    /// A request without a body. Its method, URL, header fields without secrets, and `timeoutInterval` are stored.
    public var request: URLRequest
    /// The file to send.
    public var file: URL

    /// The upload protocol; see `UploadOperation.uploadProtocol`.
    public var uploadProtocol = UploadProtocol.automatic
    /// The maximum length of a chunk, in bytes; nil for an adaptive length. See `UploadOperation.chunkSize`.
    public var chunkLength: Int64?
    /// The number of concurrent parts; see `UploadOperation.parallelPartCount`.
    public var parallelPartCount = 1
    /// Whether to start over if the upload cannot be resumed, because the server no longer has it or the file has
    /// changed; see `UploadOperation.resumption`. The default is true.
    public var restartsWhenGone = true
    /// The expected checksum of the file; see `UploadOperation.checksum`.
    public var checksum: Checksum?
    /// The algorithm with which the server verifies each request; see `UploadOperation.chunkChecksumAlgorithm`.
    public var chunkChecksumAlgorithm: ChecksumAlgorithm?
    /// The metadata of the upload; see `UploadOperation.metadata`. It is stored unchanged, so do not put secrets in
    /// it.
    public var metadata: [String: String] = [:]

    /// Whether to store a URL with a secret in its query. The default is false: such a URL is rejected with
    /// ``DownloadQueueError/secretInURL(_:)``. A user name or password is always rejected.
    public var storesSecretsInURL = false

    /// Creates an upload of a file.
    public init(_ request: URLRequest, file: URL) {
        self.request = request
        self.file = file
    }
}

extension UploadRequest: StorableRequest {
    package var otherURLs: [URL] { [] }
    package var body: OutboxRequest.Body? { nil }

    package func work() throws(DownloadQueueError) -> StoredRequest.Work {
        guard request.httpBody == nil, request.httpBodyStream == nil else {
            throw .unsuitableRequest("The request of an upload must not have a body.")
        }
        guard file.isFileURL else { throw .unsuitableRequest("The URL of the file must be a file URL.") }
        let options = StoredUploadOptions(
            uploadProtocol: uploadProtocol, chunk: chunkLength, parts: parallelPartCount, restarts: restartsWhenGone,
            checksum: checksum?.description, chunkChecksum: chunkChecksumAlgorithm?.rawValue, metadata: metadata)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        guard let data = try? encoder.encode(options) else {
            throw .unsuitableRequest("The settings of the upload cannot be encoded.")
        }
        return .upload(StoredUpload(file: file.absoluteURL.standardizedFileURL, options: data))
    }
}

extension UploadRequest: OpaqueReflectable {
    package var shownChildren: KeyValuePairs<String, Any> {
        let url = Redaction.url(request.url?.absoluteString ?? "")
        return ["id": id, "method": request.httpMethod ?? "GET", "url": url, "file": file.path]
    }
}

/// The stored settings of an upload.
struct StoredUploadOptions: Codable {
    var uploadProtocol: UploadProtocol
    var chunk: Int64?
    var parts: Int
    var restarts: Bool
    var checksum: String?
    var chunkChecksum: String?
    var metadata: [String: String]

    /// Applies stored settings to an operation. Settings that cannot be read are an error, because a file must not be
    /// sent without its verification.
    static func apply(_ upload: StoredUpload, to operation: UploadOperation) throws(DownloadQueueError) {
        guard let options = try? JSONDecoder().decode(Self.self, from: upload.options) else {
            throw .unsuitableRequest("The stored settings of the upload cannot be read.")
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
