import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A resumable upload, which survives interrupted connections, network changes, long pauses, and the end of the
/// process. The counterpart of `DownloadOperation`.
///
/// The operation uses tus 1.0 or the IETF draft "Resumable Uploads for HTTP", as supported by the server or chosen by
/// ``uploadProtocol``. A small journal beside the file contains the URL of the upload on the server. A later upload of
/// the same file to the same URL, by this process or another, requests the offset from the server and resumes from
/// there. If the file has changed in the meantime, the upload fails before sending a byte of it. The upload succeeds
/// only if the server has confirmed every byte.
///
/// ```swift
/// let upload = UploadOperation(request: URLRequest(url: files), file: film)
/// upload.metadata = ["filename": "film.mkv"]
/// upload.retryPolicy = RetryPolicy()
/// manager.enqueue(upload)
/// upload.pause(); upload.resume()
/// ```
///
/// If the server supports neither protocol, the file is sent in one PUT (or with the request's method), which **starts
/// over** after a failure or a pause; see ``isResumable``. With a method that must not be sent twice, such as POST, the
/// request stays on its connection during a pause, as in `URLConnectionOperation.pause()`.
///
/// The header fields of the request are sent with each of the upload's requests. If the server places the upload at a
/// different origin, credentials and secret fields are not sent there. `responseObject` is the URL of the upload with
/// tus; otherwise the serializer creates it from the last response. All progress counts bytes confirmed by the server.
open class UploadOperation: HTTPRequestOperation, @unchecked Sendable {
    let uploadSettings = Locked(UploadSettings())
    let upload = Locked<Upload?>(nil)

    /// Creates an upload without a source, which fails with ``UploadError/Reason/noSource``.
    public required init(request: URLRequest) {
        super.init(request: request)
        worker = Worker()
    }

    /// Creates an upload of a file, with a journal; see ``journal``.
    ///
    /// - Parameters:
    ///   - request: The request, whose URL creates uploads or, without a protocol, is the
    ///     destination of the file.
    ///   - file: The file.
    public convenience init(request: URLRequest, file: URL) {
        self.init(request: request)
        uploadSettings.withLock { $0.source = .file(file) }
    }

    /// Creates an upload of data. It has a journal only if ``journal`` is set.
    public convenience init(request: URLRequest, data: Data) {
        self.init(request: request)
        uploadSettings.withLock { $0.source = .data(data) }
    }

    /// Creates an upload of a sequence of bytes that can be created again. Bytes lost by the server can then be sent
    /// again, and another process can resume the upload if ``journal`` is set. At most ``windowSize`` bytes are kept
    /// until they are confirmed.
    ///
    /// - Parameters:
    ///   - request: The request; see the initializer with a file.
    ///   - length: The length in bytes; if nil, the server must support uploads of unknown length.
    ///   - make: Creates the sequence, with the same bytes each time.
    public convenience init<Pieces: AsyncSequence & SendableMetatype>(
        request: URLRequest, length: Int64? = nil, making make: @escaping @Sendable () throws -> Pieces
    )
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype
    {
        self.init(request: request)
        uploadSettings.withLock { $0.source = .sequence(length: length, canRepeat: true) { SequencePump(make) } }
    }

    /// Creates an upload of a sequence of bytes that can be iterated only once. At most ``windowSize`` unconfirmed
    /// bytes are kept, so that they can be sent again.
    public convenience init<Pieces: AsyncSequence & Sendable>(
        request: URLRequest, length: Int64? = nil, pieces: Pieces
    )
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype
    {
        self.init(request: request)
        let pump = SequencePump { pieces }
        uploadSettings.withLock { $0.source = .sequence(length: length, canRepeat: false) { pump } }
    }

    deinit { upload.withLock { $0 }?.close() }

    func setting<Value: Sendable>(_ path: WritableKeyPath<UploadSettings, Value> & Sendable) -> Value {
        uploadSettings.withLock { $0[keyPath: path] }
    }

    func set<Value: Sendable>(_ path: WritableKeyPath<UploadSettings, Value> & Sendable, _ value: Value) {
        uploadSettings.withLock { $0[keyPath: path] = value }
    }

    /// Copies the settings to a copy of the operation.
    open override func copySettings(to copy: URLConnectionOperation) {
        super.copySettings(to: copy)
        let own = uploadSettings.withLock { $0 }
        (copy as? UploadOperation)?.uploadSettings.withLock { $0 = own }
    }

    private final class Worker: AttemptRunner {
        private let upload = Locked<Upload?>(nil)

        var workedClass: ObjectIdentifier { ObjectIdentifier(UploadOperation.self) }
        var isResumable: Bool { upload.withLock { $0 }?.state.withLock { $0.isResumable } ?? false }

        func begin(_ work: AttemptContext, of operation: URLConnectionOperation) {
            guard let operation = operation as? UploadOperation else { return }
            let current = operation.upload.withLock { upload in
                let current = upload ?? Upload(operation)
                upload = current
                return current
            }
            upload.withLock { $0 = current }
            current.begin(work)
        }

        func release(_ operation: URLConnectionOperation) {
            guard let operation = operation as? UploadOperation, let upload = operation.upload.withLock({ $0 }) else {
                return
            }
            if operation.isCancelled, upload.settings.terminatesWhenCancelled, upload.canTerminate {
                Task { try? await upload.terminate(operation) }
            } else {
                upload.close()
            }
        }
    }
}

/// The settings of an upload, which are read when the operation starts.
extension UploadOperation {
    /// The upload protocol. The default is ``UploadProtocol/automatic``.
    public final var uploadProtocol: UploadProtocol {
        get { setting(\.uploadProtocol) }
        set { set(\.uploadProtocol, newValue) }
    }

    /// The number of bytes per request. The default is ``UploadChunkSize/adaptive``.
    public final var chunkSize: UploadChunkSize {
        get { setting(\.chunkSize) }
        set { set(\.chunkSize, newValue) }
    }

    /// The number of concurrent parts of a file or data, which the server then combines (tus, `concatenation`). The
    /// default is 1. All of the parts count as one operation in a queue.
    public final var parallelPartCount: Int {
        get { setting(\.parallelParts) }
        set { set(\.parallelParts, max(1, newValue)) }
    }

    /// The minimum length of a part, in bytes. The default is 1 MiB.
    public final var minimumPartLength: Int64 {
        get { setting(\.minimumPart) }
        set { set(\.minimumPart, max(1, newValue)) }
    }

    /// The behaviour if an earlier upload of the same source to the same URL was not completed. The default is
    /// ``UploadResumption/resume``.
    public final var resumption: UploadResumption {
        get { setting(\.resumption) }
        set { set(\.resumption, newValue) }
    }

    /// The algorithm with which the server verifies the bytes of each request (tus, `checksum`; the draft's
    /// `Content-Digest`); nil, the default, for none. Bytes damaged in transit are sent again.
    public final var chunkChecksumAlgorithm: ChecksumAlgorithm? {
        get { setting(\.chunkChecksum) }
        set { set(\.chunkChecksum, newValue) }
    }

    /// The expected checksum of the source; nil, the default, to accept any. It is compared before the last bytes are
    /// sent, so that the server never has a complete upload with wrong bytes.
    public final var checksum: Checksum? {
        get { setting(\.checksum) }
        set { set(\.checksum, newValue) }
    }

    /// The algorithms of the checksums of the source to compute; see ``computedChecksums``. It is empty by default.
    public final var computedChecksumAlgorithms: Set<ChecksumAlgorithm> {
        get { setting(\.computed) }
        set { set(\.computed, newValue) }
    }

    /// The metadata of the upload (tus, `Upload-Metadata`). The `filename` and `filetype` of a file are added. A name
    /// must be printable ASCII without commas; otherwise the upload fails with
    /// ``UploadError/Reason/invalidMetadata(name:)``.
    public final var metadata: [String: String] {
        get { setting(\.metadata) }
        set { set(\.metadata, newValue) }
    }

    /// The maximum number of unconfirmed bytes of a sequence to keep. The default is 8 MiB.
    public final var windowSize: Int {
        get { setting(\.window) }
        set { set(\.window, max(1, newValue)) }
    }

    /// The file of the journal. If nil, the default, a file's journal is stored beside the file or, if no file can be
    /// created there, in `$XDG_STATE_HOME/convoy/uploads` (`~/.local/state/convoy/uploads`). Other sources do not have
    /// one. The journal contains no secrets, and is accessible only to the user. Every upload requires a separate
    /// journal.
    public final var journal: URL? {
        get { setting(\.journal) }
        set { set(\.journal, newValue) }
    }

    /// Whether to keep a journal. The default is true. Without a journal, the upload can be resumed after a pause or a
    /// retry, but not by a different operation.
    public final var keepsJournal: Bool {
        get { setting(\.keepsJournal) }
        set { set(\.keepsJournal, newValue) }
    }

    /// The URL of an existing upload on the server, which is resumed unless the journal contains one; nil, the default,
    /// for a new upload. The caller must ensure that the existing upload was started with the same source.
    public final var existingUploadURL: URL? {
        get { setting(\.uploadURL) }
        set { set(\.uploadURL, newValue) }
    }

    /// Whether to send the first bytes with the request that creates the upload (tus, `creation-with-upload`). The
    /// default is false: without bytes, the request can be sent again after a failure.
    public final var sendsDataWithCreation: Bool {
        get { setting(\.sendsDataWithCreation) }
        set { set(\.sendsDataWithCreation, newValue) }
    }

    /// Whether to delete the upload on the server when the operation is cancelled (tus, `termination`; the draft's
    /// DELETE). The default is false, so that a later operation can resume the upload.
    public final var terminatesWhenCancelled: Bool {
        get { setting(\.terminatesWhenCancelled) }
        set { set(\.terminatesWhenCancelled, newValue) }
    }

    /// The destination of the complete source if the server does not support a protocol; nil, the default, for the
    /// request's URL.
    package final var plainURL: URL? {
        get { setting(\.plainURL) }
        set { set(\.plainURL, newValue) }
    }

    /// The adapter that sends the upload instead of the protocols. Used by other modules.
    package final var adapter: (any UploadAdapter)? {
        get { setting(\.adapter) }
        set { set(\.adapter, newValue) }
    }

    /// The uploaded file; nil for data and sequences.
    public final var file: URL? { setting(\.source)?.file }

    /// The initial delay, in milliseconds, before requesting the offset again after a setback. Used by tests.
    package final var patience: Double {
        get { setting(\.patience) }
        set { set(\.patience, newValue) }
    }
}

/// The results of an upload.
extension UploadOperation {
    /// The URL of the upload on the server; nil until it exists. It may contain secrets.
    public final var uploadURL: URL? { upload.withLock { $0 }?.state.withLock { $0.parts.first?.url } }

    /// The protocol in use; nil until it is determined.
    public final var chosenProtocol: UploadProtocol? { upload.withLock { $0 }?.state.withLock { $0.uploadProtocol } }

    /// Whether the upload would be resumed rather than restarted.
    public final var isResumable: Bool { upload.withLock { $0 }?.state.withLock { $0.isResumable } ?? false }

    /// The time at which the server discards the incomplete upload; nil if not specified.
    public final var expirationDate: Date? {
        upload.withLock { $0 }?.state.withLock { $0.record.expires }.flatMap { HTTPDate.parse($0) }
            .map { Date(timeIntervalSince1970: TimeInterval($0)) }
    }

    /// The checksums of the source for ``computedChecksumAlgorithms``, in no particular order; empty unless the upload
    /// has succeeded.
    public final var computedChecksums: [Checksum] {
        isFinished && error == nil ? upload.withLock { $0 }?.state.withLock { $0.computed } ?? [] : []
    }

    /// The current progress and rate. This property can be read on any thread.
    public final var uploadProgress: UploadProgress {
        upload.withLock { $0 }?.progress ?? UploadProgress(bytesConfirmed: 0, bytesExpected: nil, bytesPerSecond: nil)
    }

    /// The progress, starting with the current value. The sequence ends after the final value, when the operation has
    /// finished.
    public final var uploadProgressUpdates: AsyncMapSequence<AsyncStream<TransferProgress>, UploadProgress> {
        transferProgressUpdates.map { [weak self] progress in
            self?.upload.withLock { $0 }?.progress
                ?? UploadProgress(bytesConfirmed: progress.bytesSent, bytesExpected: progress.bytesExpectedToSend)
        }
    }

    /// Deletes an unsuccessful upload on the server, and removes the journal. Call this method after the operation has
    /// finished.
    ///
    /// - Throws: The error of the transfer or of the status. If the upload no longer exists, this method succeeds.
    public final func terminate() async throws {
        guard let upload = upload.withLock({ $0 }), upload.canTerminate else { return }
        try await upload.terminate(self)
    }

    /// Removes the journal of an incomplete upload of a file to a URL, so that a later one starts over.
    ///
    /// - Throws: ``UploadError/Reason/inUse`` while an upload is running, and
    ///   ``UploadError/Reason/unusableJournal(_:)``.
    public static func removeJournal(of file: URL, for url: URL) throws(UploadError) {
        try removeJournals(of: file, for: url, in: UploadJournalPlace.userDirectory)
    }

    static func removeJournals(of file: URL, for url: URL, in directory: String?) throws(UploadError) {
        for path in UploadJournalPlace.existing(of: file, for: url, directory) {
            try UploadJournal(path, calls: FileCalls()).remove()
        }
    }
}

extension Upload {
    /// Whether the server has an upload that can be deleted.
    var canTerminate: Bool { state.withLock { !$0.isDone && !$0.parts.isEmpty && $0.uploadProtocol != .plain } }

    /// Deletes the upload on the server, and removes the journal.
    func terminate(_ operation: UploadOperation) async throws {
        let (parts, uploadProtocol) = state.withLock { ($0.parts, $0.uploadProtocol) }
        for part in parts {
            var sent = uploadRequest("DELETE", part.url)
            switch uploadProtocol {
            case .draft(let version)?: ResumableDialect.draft(version).mark(&sent)
            default: ResumableDialect.tus.mark(&sent)
            }
            let answer = try await send(sent)
            guard answer.isSuccess || answer.status == 404 || answer.status == 410 else {
                close()
                throw refusal(answer)
            }
        }
        let journal = state.withLock { state in
            state.parts = []
            state.isDone = true
            return state.journal
        }
        if let journal {
            try await blocking { journal.remove() }
        } else if let file = settings.source?.file, let url = request.url, settings.keepsJournal, settings.journal == nil {
            try await blocking { [settings] in
                try UploadOperation.removeJournals(of: file, for: url, in: settings.journalDirectory)
            }
        }
        close()
        withExtendedLifetime(operation) {}
    }
}

extension UploadOperation {
    /// Creates an upload that resumes an earlier one. The journal beside the file takes precedence, because it is
    /// newer.
    ///
    /// - Parameters:
    ///   - request: A request for the same URL, with the header fields, which are not part of resume data.
    ///   - resumeData: The resume data of the earlier upload.
    public convenience init(request: URLRequest, resumeData: UploadResumeData) {
        self.init(request: request, file: resumeData.file)
        set(\.resumed, resumeData.record)
    }

    /// The resume data of an operation that has finished without success; nil if it cannot be resumed, because the
    /// server has no upload, the source is not a file, or the upload has succeeded.
    public final var resumeData: UploadResumeData? {
        guard isFinished, error != nil, let file, let upload = upload.withLock({ $0 }) else { return nil }
        return UploadResumeData(file, upload.currentRecord)
    }
}
