import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A download that ends with a file in its place, or with the old file untouched. The counterpart of
/// `AFDownloadRequestOperation`.
///
/// The bytes go into a partial file beside the destination, which a small journal describes. At every moment, also after
/// the process was killed, there is the old file, the new file, or a partial file that a later download of the same URL to
/// the same destination continues, if the server still has the same file; otherwise it starts over. Two downloads never
/// write one file: the second fails with ``DownloadError/Reason/inUse(_:)``. A new file of at most 64 KiB, over one
/// connection and without a checksum, is written when it is whole.
///
/// ```swift
/// let download = DownloadOperation(request: request, destination: file)
/// download.checksum = try Checksum(parsing: "sha-256=…")
/// download.segmentCount = 4
/// manager.enqueue(download)
/// ```
///
/// `responseObject` is the URL of the file. A response that is not acceptable to `responseSerializer` does not get into
/// the file: its body is `responseData`. The request is a GET; it asks for the body without a content encoding, unless it
/// has an `Accept-Encoding` of its own. A download uses no cache, and does not share its transfer.
open class DownloadOperation: HTTPRequestOperation, @unchecked Sendable {
    let downloadSettings = Locked(DownloadSettings())
    let download = Locked<Download?>(nil)

    /// A download whose place is set later, as ``destination`` or ``directory``.
    public required init(request: URLRequest) {
        super.init(request: request)
        worker = Worker()
    }

    /// A download into a file. A file that has its name is dealt with by ``existingFilePolicy``.
    public convenience init(request: URLRequest, destination: URL) {
        self.init(request: request)
        downloadSettings.withLock { $0.place = .file(destination) }
    }

    /// A download into a directory, under the name that the server says, or else that of the URL; see
    /// ``usesServerFileName``.
    public convenience init(request: URLRequest, directory: URL) {
        self.init(request: request)
        downloadSettings.withLock { $0.place = .directory(directory) }
    }

    deinit { download.withLock { $0 }?.close() }

    // MARK: Settings, read when the operation starts

    /// Where the file is to be; nil if only its directory is known.
    public final var destination: URL? {
        get { downloadSettings.withLock { if case .file(let url) = $0.place { url } else { nil } } }
        set { downloadSettings.withLock { $0.place = newValue.map { .file($0) } } }
    }

    /// The directory in which the file is to be under the name that the server says; nil if the name is known.
    public final var directory: URL? {
        get { downloadSettings.withLock { if case .directory(let url) = $0.place { url } else { nil } } }
        set { downloadSettings.withLock { $0.place = newValue.map { .directory($0) } } }
    }

    /// What happens where a file has the name already. `.fail` by default, in every form of a download.
    public final var existingFilePolicy: ExistingFilePolicy {
        get { downloadSettings.withLock { $0.existing } }
        set { downloadSettings.withLock { $0.existing = newValue } }
    }

    /// Whether a file in a ``directory`` has the name of the response's `Content-Disposition`, made safe (RFC 6266, section
    /// 4.3), if there is one. True by default. Otherwise it has the last part of the URL's path.
    public final var usesServerFileName: Bool {
        get { downloadSettings.withLock { $0.usesServerFileName } }
        set { downloadSettings.withLock { $0.usesServerFileName = newValue } }
    }

    /// Whether the download restarts from the beginning with content that cannot be the resource whose bytes are stored: the
    /// media type has changed, or the whole file is shorter than the stored bytes. False by default, so that the login page
    /// of a network does not replace an interrupted download: it fails with ``DownloadError/Reason/changedType(expected:actual:)``
    /// or ``DownloadError/Reason/changedLength(stored:actual:)``, and the stored bytes are kept.
    ///
    /// The rule also protects a file that ``ExistingFilePolicy/resume`` continues. Where only the file's name says what
    /// type it has (there, and with ``ExistingFilePolicy/revalidate``), only HTML counts as a change.
    public final var acceptsUnrelatedContent: Bool {
        get { downloadSettings.withLock { $0.acceptsUnrelatedContent } }
        set { downloadSettings.withLock { $0.acceptsUnrelatedContent = newValue } }
    }

    /// The digest that the file must have; nil, the default, for any. It is computed while the bytes come. Without
    /// one, the file is checked against what the server says of it in `Repr-Digest`, `Digest` or `Content-MD5`.
    public final var checksum: Checksum? {
        get { downloadSettings.withLock { $0.checksums.first } }
        set { downloadSettings.withLock { $0.checksums = newValue.map { [$0] } ?? [] } }
    }

    /// All digests that the file must have.
    public final var checksums: [Checksum] {
        get { downloadSettings.withLock { $0.checksums } }
        set { downloadSettings.withLock { $0.checksums = newValue } }
    }

    /// Whose checksums of the file are computed while it comes; see ``computedChecksums``. None by default.
    public final var computedChecksumAlgorithms: Set<ChecksumAlgorithm> {
        get { downloadSettings.withLock { $0.computed } }
        set { downloadSettings.withLock { $0.computed = newValue } }
    }

    /// The digests of the file's pieces, by which a mirror with wrong bytes is found. nil by default.
    public final var pieceChecksums: PieceChecksums? {
        get { downloadSettings.withLock { $0.pieces } }
        set { downloadSettings.withLock { $0.pieces = newValue } }
    }

    /// The length that the file must have, in bytes; nil, the default, for any.
    public final var expectedLength: Int64? {
        get { downloadSettings.withLock { $0.expectedLength } }
        set { downloadSettings.withLock { $0.expectedLength = newValue } }
    }

    /// Over how many connections one file is fetched, where the server allows ranges and says what identifies the file; 1
    /// by default. They count as one operation in a queue.
    public final var segmentCount: Int {
        get { downloadSettings.withLock { $0.segments } }
        set { downloadSettings.withLock { $0.segments = max(1, newValue) } }
    }

    /// A segment is divided into parts no shorter than this, in bytes; 1 MiB by default.
    public final var minimumSegmentLength: Int64 {
        get { downloadSettings.withLock { $0.minimumSegment } }
        set { downloadSettings.withLock { $0.minimumSegment = max(1, newValue) } }
    }

    /// Other URLs of the same file, the best first, which are asked when the request's fails. If ``checksum`` is known, the
    /// segments come from all of them, and mostly from the fastest; otherwise bytes of two mirrors are never combined.
    public final var mirrors: [URL] {
        get { downloadSettings.withLock { $0.mirrors } }
        set { downloadSettings.withLock { $0.mirrors = newValue } }
    }

    /// Whether the duplicates that the server names in `Link` are mirrors too (RFC 6249). False by default.
    public final var usesServerMirrors: Bool {
        get { downloadSettings.withLock { $0.usesServerMirrors } }
        set { downloadSettings.withLock { $0.usesServerMirrors = newValue } }
    }

    /// Whether the operation finishes only when the file's name is on the disk, too (`fsync` of the file and its folder).
    /// False by default: its bytes are there, but a power cut soon after the end may leave what was there before.
    public final var synchronizesFile: Bool {
        get { downloadSettings.withLock { $0.synchronizes } }
        set { downloadSettings.withLock { $0.synchronizes = newValue } }
    }

    /// Whether the file gets the time of `Last-Modified`. True by default.
    public final var keepsModificationDate: Bool {
        get { downloadSettings.withLock { $0.keepsModificationDate } }
        set { downloadSettings.withLock { $0.keepsModificationDate = newValue } }
    }

    // MARK: Results

    /// What a finished download has done; nil if it has failed, or not finished.
    public final var outcome: DownloadOutcome? { isFinished && error == nil ? download.withLock { $0 }?.outcome : nil }

    /// The file; nil as long as its name is not known.
    public final var fileURL: URL? { download.withLock { $0 }?.finalURL ?? destination }

    /// The checksums of a file that was downloaded, for ``computedChecksumAlgorithms``, in no order; otherwise empty.
    public final var computedChecksums: [Checksum] {
        outcome == .downloaded ? download.withLock { $0 }?.state.withLock { $0.computed } ?? [] : []
    }

    /// The length, in bytes, of the file that an interrupted download had begun, where the server has one of another length
    /// now, which was fetched from its start; otherwise nil.
    public final var earlierLength: Int64? { download.withLock { $0 }?.state.withLock { $0.earlierLength } }

    /// How far the download is, and how fast. Any thread.
    public final var downloadProgress: DownloadProgress {
        guard let download = download.withLock({ $0 }) else { return DownloadProgress(transferProgress) }
        return download.progress(transferProgress)
    }

    /// The same as it moves: first as it is now, last as it was when the operation finished; then the sequence ends.
    public final var downloadProgressUpdates: AsyncMapSequence<AsyncStream<TransferProgress>, DownloadProgress> {
        transferProgressUpdates.map { [weak self] progress in
            guard let download = self?.download.withLock({ $0 }) else { return DownloadProgress(progress) }
            return download.progress(progress)
        }
    }

    /// Removes what an unfinished download has left beside a destination.
    ///
    /// - Throws: ``DownloadError/Reason/inUse(_:)`` while another download is writing, or `URLError.cannotWriteToFile`.
    public static func removePartialFile(of destination: URL) throws {
        let paths = PartialPaths(following: destination.path)
        guard FileManager.default.fileExists(atPath: paths.partial) || FileManager.default.fileExists(atPath: paths.journal)
        else { return }
        let file = DownloadFile(paths)
        do throws(FileWritingError) {
            _ = try file.open()
        } catch {
            throw error.reason == .partialIsShared ? DownloadError.inUse(destination) : error.urlError(nil, destination)
        }
        file.discard()
    }

    /// Called once with the place of a file whose name the response says; returns the place that it gets, in the same
    /// directory. On the network thread: it must not block.
    package final var placeFilter: (@Sendable (URL) -> URL)? {
        get { downloadSettings.withLock { $0.placeFilter } }
        set { downloadSettings.withLock { $0.placeFilter = newValue } }
    }

    // MARK: For tests

    /// The system calls for files.
    package final var fileCalls: FileCalls {
        get { downloadSettings.withLock { $0.calls } }
        set { downloadSettings.withLock { $0.calls = newValue } }
    }

    /// The clock by which the bytes are synchronized: nanoseconds.
    package final var fileClock: @Sendable () -> UInt64 {
        get { downloadSettings.withLock { $0.clock } }
        set { downloadSettings.withLock { $0.clock = newValue } }
    }

    // MARK: The work

    /// Called when the file is whole, and is about to get its name; on a thread that may block. An error that it throws ends
    /// the download.
    package func willCommit(partialFile: String, as place: URL) throws { try commitCheck?(partialFile, place) }

    /// Called when the file is whole, like ``willCommit(partialFile:as:)``, in downloads of other modules.
    package final var commitCheck: (@Sendable (_ partialFile: String, _ place: URL) throws -> Void)? {
        get { downloadSettings.withLock { $0.commitCheck } }
        set { downloadSettings.withLock { $0.commitCheck = newValue } }
    }

    /// Copies the settings.
    open override func copySettings(to copy: URLConnectionOperation) {
        super.copySettings(to: copy)
        let own = downloadSettings.withLock { $0 }
        (copy as? DownloadOperation)?.downloadSettings.withLock { $0 = own }
    }

    private final class Worker: OperationWorker {
        var workedClass: ObjectIdentifier { ObjectIdentifier(DownloadOperation.self) }

        func begin(_ work: OperationWork, of operation: URLConnectionOperation) {
            guard let operation = operation as? DownloadOperation else { return }
            let current = operation.download.withLock { download in
                let current = download ?? Download(operation)
                download = current
                return current
            }
            current.begin(work)
        }

        func end(_ operation: URLConnectionOperation) {
            (operation as? DownloadOperation)?.download.withLock { $0 }?.close()
        }
    }
}

/// Downloads that a Metalink describes.
extension DownloadOperation {
    /// A download of a file of a Metalink (RFC 5854) into a directory, with its mirrors, checksums and length. The
    /// directories in the file's name are not made.
    ///
    /// - Throws: ``DownloadError/Reason/noSource`` if the Metalink has no URL of http or https for the file.
    public convenience init(_ file: Metalink.File, directory: URL) throws(DownloadError) {
        guard let first = file.mirrors.first else { throw .noSource }
        let place = file.pathComponents.reduce(directory) { $0.appendingPathComponent($1, isDirectory: false) }
        self.init(request: URLRequest(url: first.url), destination: place)
        apply(file)
        mirrors = file.mirrors.dropFirst().map(\.url)
    }

    /// Takes over what a Metalink says of the file: its other URLs, checksums and length. The request stays the first to
    /// be sent.
    public final func apply(_ file: Metalink.File) {
        mirrors = file.mirrors.map(\.url).filter { $0 != request.url }
        if !file.checksums.isEmpty { checksums = file.checksums }
        if let size = file.size { expectedLength = size }
        if let pieces = file.pieces {
            pieceChecksums = PieceChecksums(length: pieces.length, checksums: pieces.checksums)
        }
    }
}

extension DownloadOperation {
    /// The request as it is sent: it asks for a body without a content encoding, unless it has an `Accept-Encoding` of its
    /// own.
    package static func askingForIdentity(_ request: URLRequest) -> URLRequest {
        guard request.value(forHTTPHeaderField: "Accept-Encoding") == nil else { return request }
        var request = request
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        return request
    }

    /// Whether a body that comes encoded nevertheless is decoded: not where the user has asked for an encoding, and not
    /// the archive that many servers send as its encoded contents.
    package static func decodesBody(of request: URLRequest) -> Bool {
        request.value(forHTTPHeaderField: "Accept-Encoding") == nil && !isCompressedFile(request.url)
    }

    static func isCompressedFile(_ url: URL?) -> Bool {
        // Many have none, which is seen sooner here than by Foundation.
        guard let url,
            url.absoluteString.utf8.reversed().prefix(while: { $0 != UInt8(ascii: "/") })
                .contains(where: {
                    [UInt8(ascii: "."), UInt8(ascii: "%"), UInt8(ascii: "?"), UInt8(ascii: "#")].contains($0)
                })
        else { return false }
        return ["gz", "tgz", "taz", "svgz", "z", "br", "zst", "tzst", "deb"].contains(url.pathExtension.lowercased())
    }
}

// The names of AFDownloadRequestOperation, an extension of AFNetworking 2, so that the compiler says what to write now.

/// A download to a file (AFDownloadRequestOperation).
@available(*, unavailable, renamed: "DownloadOperation")
public typealias AFDownloadRequestOperation = DownloadOperation
