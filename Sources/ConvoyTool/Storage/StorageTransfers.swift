import Convoy
import ConvoyObjectStorage
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// Creates the downloads and uploads of `convoy s3`.
struct StorageTransfers: Sendable {
    /// The settings of an upload.
    struct Attributes: Sendable {
        var contentType: String?
        var metadata: [String: String] = [:]
        var condition: StoreCondition?
        var resumption = UploadResumption.resumeUnlessChanged
        var keepsJournal = true
    }

    /// A condition for a download.
    struct Condition: Sendable {
        var matching: String?
        var notMatching: String?
    }

    let settings: StorageSettings
    private let segments: Int
    private let printsJSON: Bool
    private let count = Counter()

    private final class Counter: Sendable { let value = Atomic<Int>(0) }

    init(_ settings: StorageSettings, _ options: Options) throws(ToolError) {
        self.settings = settings
        segments = try options.integer("segments", in: 1...64) ?? 1
        printsJSON = options.has("json")
    }

    private var number: Int { count.value.add(1, ordering: .relaxed).newValue }

    /// Runs a closure that creates a step. If it throws, the step is a failure.
    static func step(
        _ location: StorageLocation, file: String? = nil, _ body: () async throws -> TransferStep
    ) async -> TransferStep {
        do {
            return try await body()
        } catch {
            var outcome = Outcome.failure(StorageCall.toolError(error), url: location.text)
            outcome.file = file
            return .settled(outcome)
        }
    }

    // MARK: Downloads

    /// Returns the step that downloads an object to a file.
    func download(
        _ location: StorageLocation, to path: String, _ existing: ExistingFilePolicy, _ condition: Condition = Condition(),
        from storage: ObjectStorage
    ) async throws -> TransferStep {
        let isSkipped = try await BlockingWork.run {
            if existing == .skip, Directories.hasFile(path) { return true }
            try Directories.checkIsFree(
                path, partial: nil, replaces: existing != .fail,
                see: "--continue, --no-clobber, --timestamping and --force")
            return false
        }
        if isSkipped { return .settled(Self.outcome(location, path, .skipped)) }
        let object = try await storage.head(location.key)
        if try !condition.isMet(by: object) { return .settled(Self.outcome(location, path, .notModified)) }
        if existing == .resume, try await BlockingWork.run({ try Self.isComplete(path, object) }) {
            return .settled(Self.outcome(location, path, .skipped))
        }
        let url = try await Self.signedURL(of: location, in: storage)
        let download = DownloadOperation(request: Self.request(for: object, url))
        download.destination = UserPath.url(path, isDirectory: false)
        // A signed URL allows no HEAD request, with which the policy would look up the length.
        download.existingFilePolicy = existing == .resume ? .replace : existing
        download.acceptsUnrelatedContent = existing == .replace
        download.segmentCount = segments
        if printsJSON { download.computedChecksumAlgorithms = [.sha256] }
        let checksums = object.checksums
        if !checksums.isEmpty {
            download.commitCheck = { partial, _ in
                for checksum in checksums where try checksum.matches(fileAt: partial) == false {
                    throw ToolError(
                        text: "the file does not match the \(checksum.algorithm) checksum of the object",
                        status: .failed(.checksum))
                }
            }
        }
        let transfer = Transfer(
            name: PathText.name(of: path), item: DownloadItem(urls: [url], text: location.text), download: download)
        try settings.transfers.apply(to: transfer, number: number)
        return .transfer(transfer)
    }

    /// Returns the step that writes an object to standard output, a device or a pipe.
    func stream(
        _ location: StorageLocation, to path: String?, _ condition: Condition, from storage: ObjectStorage
    ) async throws -> TransferStep {
        let object = try await storage.head(location.key)
        if try !condition.isMet(by: object) { return .settled(Self.outcome(location, path, .notModified)) }
        let url = try await Self.signedURL(of: location, in: storage)
        let transfer = Transfer(
            id: nil, name: location.name, request: Self.request(for: object, url), url: url,
            item: DownloadItem(urls: [url], text: location.text),
            body: DescriptorSink(path: path, patience: settings.transfers.speed.maximumTime))
        try settings.transfers.apply(to: transfer, number: number)
        return .transfer(transfer)
    }

    /// Returns whether a file has the length of an object, and its checksums if it has any. Blocks.
    private static func isComplete(_ path: String, _ object: StoredObject) throws -> Bool {
        var facts = stat()
        guard stat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, Int64(facts.st_size) == object.size else {
            return false
        }
        return try object.checksums.allSatisfy { try $0.matches(fileAt: path) != false }
    }

    /// The validity of the signature of a download, in seconds: the longest that servers allow.
    private static let validity = 604_800

    /// Returns a signed URL. The credentials may come from a command, for which a thread that may block waits.
    private static func signedURL(of location: StorageLocation, in storage: ObjectStorage) async throws -> URL {
        try await BlockingWork.run { try storage.presignedURL(for: location.key, expiresIn: validity) }
    }

    /// Returns the request for an object, which must not have changed since it was looked up.
    private static func request(for object: StoredObject, _ url: URL) -> URLRequest {
        var request = URLRequest(url: url)
        if let tag = object.entityTag { request.setValue(tag, forHTTPHeaderField: "If-Match") }
        // The checksums are those of the stored bytes, which may have a content coding.
        return DownloadOperation.askingForIdentity(request)
    }

    private static func outcome(_ location: StorageLocation, _ path: String?, _ result: DownloadOutcome) -> Outcome {
        var outcome = Outcome(url: location.text)
        outcome.file = path
        outcome.result = result
        return outcome
    }

    // MARK: Uploads

    /// Returns the step that uploads a file.
    func upload(
        _ path: String, to location: StorageLocation, _ attributes: Attributes = Attributes(), in storage: ObjectStorage
    ) throws -> TransferStep {
        let file = UserPath.url(path, isDirectory: false)
        let upload = try storage.makeUpload(
            of: file, key: location.key, contentType: attributes.contentType, metadata: attributes.metadata,
            condition: attributes.condition)
        upload.resumption = attributes.resumption
        upload.keepsJournal = attributes.keepsJournal
        if printsJSON { upload.computedChecksumAlgorithms = [.sha256] }
        let transfer = Transfer(
            name: PathText.name(of: path), file: path, url: try storage.url(for: location.key), text: location.text,
            upload: upload)
        try settings.transfers.apply(to: transfer, number: number)
        // The storage retries each of its requests.
        upload.retryPolicy = nil
        return .transfer(transfer)
    }
}

extension StorageTransfers.Condition {
    /// Returns whether an object should be downloaded.
    ///
    /// - Throws: A ``ToolError`` if the object does not have the required entity tag.
    func isMet(by object: StoredObject) throws(ToolError) -> Bool {
        let tag = object.plainEntityTag ?? ""
        if let matching, StoredObject.plain(matching) != tag {
            throw ToolError(
                text: "the object has another entity tag: \(Printable.line(tag))", status: .failed(.status))
        }
        guard let notMatching else { return true }
        return notMatching != "*" && StoredObject.plain(notMatching) != tag
    }
}
