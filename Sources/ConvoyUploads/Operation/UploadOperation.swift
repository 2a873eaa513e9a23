import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// An upload that survives: interrupted connections, a changed network, an expired pause, and the end of the process. The
/// counterpart of `DownloadOperation`.
///
/// It speaks tus 1.0, or the IETF's draft "Resumable Uploads for HTTP", as the server says or ``uploadProtocol`` chooses. A
/// small journal beside the file says where the server has the upload. A later upload of the same file to the same URL, in
/// this process or another one, asks the server how much it has, and goes on from there: never from where this side was. A
/// file that has changed meanwhile is an error before a byte of it is sent, and the upload succeeds only if the server has
/// confirmed every byte.
///
/// ```swift
/// let upload = UploadOperation(request: URLRequest(url: files), file: film)
/// upload.metadata = ["filename": "film.mkv"]
/// upload.retryPolicy = RetryPolicy()
/// manager.enqueue(upload)
/// upload.pause(); upload.resume()
/// ```
///
/// Where the server knows neither protocol, the file is sent by one PUT (or the request's method), which **starts over** after
/// a failure or a pause; ``isResumable`` tells.
///
/// The header fields of the request are sent with each of the upload's requests. A server may put the upload at another
/// origin: that gets no credentials, and no field that is secret. `responseObject` is the URL of the upload with tus, and
/// otherwise what the serializer makes of the last response. All progress counts what the server has confirmed.
open class UploadOperation: HTTPRequestOperation, @unchecked Sendable {
    let uploadSettings = Locked(UploadSettings())
    let upload = Locked<Upload?>(nil)

    /// An upload without a source, which fails with ``UploadError/Reason/noSource``.
    public required init(request: URLRequest) {
        super.init(request: request)
        worker = Worker()
    }

    /// An upload of a file. Its journal is beside it, unless ``journal`` names another place.
    ///
    /// - Parameters:
    ///   - request: its URL is where uploads are created, or, without a protocol, where the file is to be.
    ///   - file: the file.
    public convenience init(request: URLRequest, file: URL) {
        self.init(request: request)
        uploadSettings.withLock { $0.source = .file(file) }
    }

    /// An upload of data. It has a journal only if ``journal`` names one.
    public convenience init(request: URLRequest, data: Data) {
        self.init(request: request)
        uploadSettings.withLock { $0.source = .data(data) }
    }

    /// An upload of pieces of bytes that can be made again, so that what the server has lost can be sent once more, and that
    /// another process can go on if ``journal`` names one. Until they are confirmed, at most ``windowSize`` bytes are kept.
    ///
    /// - Parameters:
    ///   - request: as for a file.
    ///   - length: how many bytes there will be; with nil, the server must take uploads of unknown length.
    ///   - make: makes the sequence: the same bytes each time.
    public convenience init<Pieces: AsyncSequence & SendableMetatype>(
        request: URLRequest, length: Int64? = nil, making make: @escaping @Sendable () throws -> Pieces
    )
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype
    {
        self.init(request: request)
        uploadSettings.withLock { $0.source = .sequence(length: length, canRepeat: true) { SequencePump(make) } }
    }

    /// An upload of pieces of bytes that come once. What is not confirmed is kept, to be sent again: at most ``windowSize``
    /// bytes.
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

    /// Copies the settings.
    open override func copySettings(to copy: URLConnectionOperation) {
        super.copySettings(to: copy)
        let own = uploadSettings.withLock { $0 }
        (copy as? UploadOperation)?.uploadSettings.withLock { $0 = own }
    }

    private final class Worker: OperationWorker {
        private let upload = Locked<Upload?>(nil)

        var workedClass: ObjectIdentifier { ObjectIdentifier(UploadOperation.self) }
        var isResumable: Bool { upload.withLock { $0 }?.state.withLock { $0.isResumable } ?? false }

        func begin(_ work: OperationWork, of operation: URLConnectionOperation) {
            guard let operation = operation as? UploadOperation else { return }
            let current = operation.upload.withLock { upload in
                let current = upload ?? Upload(operation)
                upload = current
                return current
            }
            upload.withLock { $0 = current }
            current.begin(work)
        }

        func end(_ operation: URLConnectionOperation) {
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

/// Settings, read when the operation starts.
extension UploadOperation {
    /// How the bytes reach the server. ``UploadProtocol/automatic`` by default.
    public final var uploadProtocol: UploadProtocol {
        get { setting(\.uploadProtocol) }
        set { set(\.uploadProtocol, newValue) }
    }

    /// How many bytes are sent in one request. ``UploadChunkSize/adaptive`` by default.
    public final var chunkSize: UploadChunkSize {
        get { setting(\.chunkSize) }
        set { set(\.chunkSize, newValue) }
    }

    /// In how many parts a file or data is sent at a time, which the server then combines (tus, `concatenation`); 1 by
    /// default. They count as one operation in a queue.
    public final var parallelPartCount: Int {
        get { setting(\.parallelParts) }
        set { set(\.parallelParts, max(1, newValue)) }
    }

    /// A part is no shorter than this, in bytes; 1 MiB by default.
    public final var minimumPartLength: Int64 {
        get { setting(\.minimumPart) }
        set { set(\.minimumPart, max(1, newValue)) }
    }

    /// What happens with what an earlier upload of the same source to the same URL has left. ``UploadResumption/resume`` by
    /// default.
    public final var resumption: UploadResumption {
        get { setting(\.resumption) }
        set { set(\.resumption, newValue) }
    }

    /// By which algorithm the server checks each request's bytes (tus, `checksum`; the draft's `Content-Digest`); nil, the
    /// default, for none. What was damaged on the way is sent again.
    public final var chunkChecksumAlgorithm: ChecksumAlgorithm? {
        get { setting(\.chunkChecksum) }
        set { set(\.chunkChecksum, newValue) }
    }

    /// The checksum that the source must have; nil, the default, for any. It is compared before the last bytes are sent, so
    /// that wrong bytes never become a whole at the server.
    public final var checksum: Checksum? {
        get { setting(\.checksum) }
        set { set(\.checksum, newValue) }
    }

    /// Whose checksums of the source are computed; see ``computedChecksums``. None by default.
    public final var computedChecksumAlgorithms: Set<ChecksumAlgorithm> {
        get { setting(\.computed) }
        set { set(\.computed, newValue) }
    }

    /// What the server is told of the upload (tus, `Upload-Metadata`). A file's `filename` and `filetype` are added.
    public final var metadata: [String: String] {
        get { setting(\.metadata) }
        set { set(\.metadata, newValue) }
    }

    /// How many bytes of a sequence are kept at most until they are confirmed; 8 MiB by default.
    public final var windowSize: Int {
        get { setting(\.window) }
        set { set(\.window, max(1, newValue)) }
    }

    /// The file of the journal; nil, the default, for one beside the uploaded file, and none for what is no file. It holds no
    /// secrets, and is private to the user. Each upload needs its own.
    public final var journal: URL? {
        get { setting(\.journal) }
        set { set(\.journal, newValue) }
    }

    /// Whether there is a journal. True by default. Without one, the upload goes on after a pause or a retry, and not in
    /// another operation.
    public final var keepsJournal: Bool {
        get { setting(\.keepsJournal) }
        set { set(\.keepsJournal, newValue) }
    }

    /// The URL of an upload that exists at the server, which is gone on with if the journal knows none; nil, the default, for
    /// a new one. What is sent must be the source that it was begun with, which only the caller can know.
    public final var existingUploadURL: URL? {
        get { setting(\.uploadURL) }
        set { set(\.uploadURL, newValue) }
    }

    /// Whether the first bytes are sent with the request that creates the upload (tus, `creation-with-upload`). False by
    /// default: without bytes it can be sent again after a failure.
    public final var sendsDataWithCreation: Bool {
        get { setting(\.sendsDataWithCreation) }
        set { set(\.sendsDataWithCreation, newValue) }
    }

    /// Whether the server is asked to delete the upload when the operation is cancelled (tus, `termination`; the draft's
    /// DELETE). False by default: a later upload can go on.
    public final var terminatesWhenCancelled: Bool {
        get { setting(\.terminatesWhenCancelled) }
        set { set(\.terminatesWhenCancelled, newValue) }
    }

    /// Where the whole is sent where the server knows no protocol; nil, the default, for the request's URL.
    package final var plainURL: URL? {
        get { setting(\.plainURL) }
        set { set(\.plainURL, newValue) }
    }

    /// Carries the upload in place of the protocols. For other modules.
    package final var adapter: (any UploadAdapter)? {
        get { setting(\.adapter) }
        set { set(\.adapter, newValue) }
    }

    /// The uploaded file; nil for data and sequences.
    public final var file: URL? { setting(\.source)?.file }

    /// How long questions after a setback wait at first, in milliseconds. For tests.
    package final var patience: Double {
        get { setting(\.patience) }
        set { set(\.patience, newValue) }
    }
}

/// Results.
extension UploadOperation {
    /// Where the server has the upload; nil as long as it has none. It may hold secrets.
    public final var uploadURL: URL? { upload.withLock { $0 }?.state.withLock { $0.parts.first?.url } }

    /// The protocol in use; nil as long as that is open.
    public final var chosenProtocol: UploadProtocol? { upload.withLock { $0 }?.state.withLock { $0.uploadProtocol } }

    /// Whether the upload would go on where it is, and not start over.
    public final var isResumable: Bool { upload.withLock { $0 }?.state.withLock { $0.isResumable } ?? false }

    /// Until when the server keeps an upload that is not finished, as it says; nil if it does not say.
    public final var expirationDate: Date? {
        upload.withLock { $0 }?.state.withLock { $0.record.expires }.flatMap { HTTPDate.parse($0) }
            .map { Date(timeIntervalSince1970: TimeInterval($0)) }
    }

    /// The checksums of the source after a success, for ``computedChecksumAlgorithms``, in no order; otherwise empty.
    public final var computedChecksums: [Checksum] {
        isFinished && error == nil ? upload.withLock { $0 }?.state.withLock { $0.computed } ?? [] : []
    }

    /// How far the upload is, and how fast. Any thread.
    public final var uploadProgress: UploadProgress {
        upload.withLock { $0 }?.progress ?? UploadProgress(bytesConfirmed: 0, bytesExpected: nil, bytesPerSecond: nil)
    }

    /// The same as it moves: first as it is now, last as it was when the operation finished; then the sequence ends.
    public final var uploadProgressUpdates: AsyncMapSequence<AsyncStream<TransferProgress>, UploadProgress> {
        transferProgressUpdates.map { [weak self] progress in
            self?.upload.withLock { $0 }?.progress
                ?? UploadProgress(bytesConfirmed: progress.bytesSent, bytesExpected: progress.bytesExpectedToSend)
        }
    }

    /// Asks the server to delete what it has of an upload that has not succeeded, and removes the journal. To be called when
    /// the operation has finished.
    ///
    /// - Throws: the error of the transfer or of the status. An upload that is gone already is a success.
    public final func terminate() async throws {
        guard let upload = upload.withLock({ $0 }), upload.canTerminate else { return }
        try await upload.terminate(self)
    }

    /// Removes what an unfinished upload of a file to a URL has left beside the file: a later one begins anew.
    ///
    /// - Throws: ``UploadError/Reason/inUse`` while one is under way, and ``UploadError/Reason/unusableJournal(_:)``.
    public static func removeJournal(of file: URL, for url: URL) throws(UploadError) {
        let path = UploadJournalPlace.path(of: file, for: url)
        guard FileIdentity(path) != nil else { return }
        try UploadJournal(path, calls: FileCalls()).remove()
    }
}

extension Upload {
    /// Whether the server has something that it can be asked to delete.
    var canTerminate: Bool { state.withLock { !$0.isDone && !$0.parts.isEmpty && $0.uploadProtocol != .plain } }

    /// Asks the server to delete the upload, and removes the journal.
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
            (state.parts, state.isDone) = ([], true)
            return state.journal
        }
        if let journal {
            try await blocking { journal.remove() }
        } else if let file = settings.source?.file, let url = request.url, settings.keepsJournal, settings.journal == nil {
            try await blocking { try UploadOperation.removeJournal(of: file, for: url) }
        }
        close()
        withExtendedLifetime(operation) {}
    }
}

extension UploadOperation {
    /// An upload that goes on with another one, which has left this. The journal beside the file, if there is one, is newer.
    ///
    /// - Parameters:
    ///   - request: for the same URL, with the header fields, which resume data does not contain.
    ///   - resumeData: what the other upload has left.
    public convenience init(request: URLRequest, resumeData: UploadResumeData) {
        self.init(request: request, file: resumeData.file)
        set(\.resumed, resumeData.record)
    }

    /// What the operation, which has finished without success, has left; nil where there is nothing to go on with: no upload at
    /// the server, a source that is no file, or a success.
    public final var resumeData: UploadResumeData? {
        guard isFinished, error != nil, let file, let upload = upload.withLock({ $0 }) else { return nil }
        return UploadResumeData(file, upload.currentRecord)
    }
}
