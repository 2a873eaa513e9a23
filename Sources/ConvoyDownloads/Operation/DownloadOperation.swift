import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// An operation that downloads a file completely, or leaves the existing file untouched. The counterpart of
/// `AFDownloadRequestOperation`.
///
/// The bytes are stored in a partial file beside the destination, described by a small journal. At any time, even after
/// the process was killed, the disk has the old file, the new file, or a partial file. A later download of the same URL
/// to the same destination resumes the partial file if the file on the server has not changed; otherwise it starts
/// over. Two downloads never write the same file: the second one fails with ``DownloadError/Reason/inUse(_:)``. A new
/// file of at most 64 KiB, over one connection and without a checksum, is written only when complete.
///
/// ```swift
/// let download = DownloadOperation(request: request, destination: file)
/// download.checksum = try Checksum(parsing: "sha-256=…")
/// download.segmentCount = 4
/// manager.enqueue(download)
/// ```
///
/// `responseObject` is the URL of the file. If `responseSerializer` does not accept a response, its body is not written
/// to the file, but is available as `responseData`. The request is a GET without a content encoding, unless it has an
/// `Accept-Encoding` field. A download does not use a cache, and does not share its transfer.
open class DownloadOperation: HTTPRequestOperation, @unchecked Sendable {
    let downloadSettings = Locked(DownloadSettings())
    let download = Locked<Download?>(nil)

    /// Creates a download whose ``destination`` or ``directory`` is set later.
    public required init(request: URLRequest) {
        super.init(request: request)
        worker = Worker()
    }

    /// Creates a download to a file. If the file exists, ``existingFilePolicy`` applies.
    public convenience init(request: URLRequest, destination: URL) {
        self.init(request: request)
        downloadSettings.withLock { $0.place = .file(destination) }
    }

    /// Creates a download to a directory, under the name suggested by the server or that in the URL; see
    /// ``usesServerFileName``.
    public convenience init(request: URLRequest, directory: URL) {
        self.init(request: request)
        downloadSettings.withLock { $0.place = .directory(directory) }
    }

    deinit { download.withLock { $0 }?.close() }

    // MARK: Settings, read when the operation starts

    /// The destination; nil if only its directory is known.
    public final var destination: URL? {
        get { downloadSettings.withLock { if case .file(let url) = $0.place { url } else { nil } } }
        set { downloadSettings.withLock { $0.place = newValue.map { .file($0) } } }
    }

    /// The directory for a file named by the server; nil if the name is known.
    public final var directory: URL? {
        get { downloadSettings.withLock { if case .directory(let url) = $0.place { url } else { nil } } }
        set { downloadSettings.withLock { $0.place = newValue.map { .directory($0) } } }
    }

    /// The behaviour if the destination exists. The default is `.fail`, in every form of a download.
    public final var existingFilePolicy: ExistingFilePolicy {
        get { downloadSettings.withLock { $0.existing } }
        set { downloadSettings.withLock { $0.existing = newValue } }
    }

    /// Whether a file in a ``directory`` is named after the response's `Content-Disposition`, made safe (RFC 6266,
    /// section 4.3), if present. Otherwise, the last component of the URL's path is used. The default is true.
    public final var usesServerFileName: Bool {
        get { downloadSettings.withLock { $0.usesServerFileName } }
        set { downloadSettings.withLock { $0.usesServerFileName = newValue } }
    }

    /// Whether the download restarts from the beginning if the server now sends content that cannot belong to the
    /// stored bytes: the media type has changed, or its length shows that the complete file is shorter. The default
    /// is false, so that the login page of a network does not replace an interrupted download: the download fails with
    /// ``DownloadError/Reason/changedType(expected:actual:)`` or
    /// ``DownloadError/Reason/changedLength(stored:actual:)``, and the stored bytes are kept.
    ///
    /// The rule also protects a file that ``ExistingFilePolicy/resume`` completes. With this policy and
    /// ``ExistingFilePolicy/revalidate``, the type of the existing file is known only from its name, so only HTML
    /// counts as a change.
    public final var acceptsUnrelatedContent: Bool {
        get { downloadSettings.withLock { $0.acceptsUnrelatedContent } }
        set { downloadSettings.withLock { $0.acceptsUnrelatedContent = newValue } }
    }

    /// The expected digest of the file; nil, the default, to accept any. It is computed during the download. Without
    /// it, the file is verified against the server's `Repr-Digest`, `Digest` or `Content-MD5`, if present.
    public final var checksum: Checksum? {
        get { downloadSettings.withLock { $0.checksums.first } }
        set { downloadSettings.withLock { $0.checksums = newValue.map { [$0] } ?? [] } }
    }

    /// The expected digests of the file, all of which must match.
    public final var checksums: [Checksum] {
        get { downloadSettings.withLock { $0.checksums } }
        set { downloadSettings.withLock { $0.checksums = newValue } }
    }

    /// The algorithms of the checksums to compute during the download; see ``computedChecksums``. It is empty by
    /// default.
    public final var computedChecksumAlgorithms: Set<ChecksumAlgorithm> {
        get { downloadSettings.withLock { $0.computed } }
        set { downloadSettings.withLock { $0.computed = newValue } }
    }

    /// The digests of the file's pieces, which identify a mirror with wrong bytes. The default is nil.
    public final var pieceChecksums: PieceChecksums? {
        get { downloadSettings.withLock { $0.pieces } }
        set { downloadSettings.withLock { $0.pieces = newValue } }
    }

    /// The expected length of the file, in bytes; nil, the default, to accept any.
    public final var expectedLength: Int64? {
        get { downloadSettings.withLock { $0.expectedLength } }
        set { downloadSettings.withLock { $0.expectedLength = newValue } }
    }

    /// The number of connections for one file, if the server supports ranges and sends a validator. The default is 1.
    /// All of the connections count as one operation in a queue.
    public final var segmentCount: Int {
        get { downloadSettings.withLock { $0.segments } }
        set { downloadSettings.withLock { $0.segments = max(1, newValue) } }
    }

    /// The minimum length of a segment, in bytes. The default is 1 MiB.
    public final var minimumSegmentLength: Int64 {
        get { downloadSettings.withLock { $0.minimumSegment } }
        set { downloadSettings.withLock { $0.minimumSegment = max(1, newValue) } }
    }

    /// Other URLs of the same file, best first, used if the request's URL fails. If ``checksum`` is known, the segments
    /// come from all of them, and mostly from the fastest. Otherwise, bytes of two mirrors are never combined.
    public final var mirrors: [URL] {
        get { downloadSettings.withLock { $0.mirrors } }
        set { downloadSettings.withLock { $0.mirrors = newValue } }
    }

    /// Whether to also use the mirrors that the server lists in `Link` fields (RFC 6249). The default is false.
    public final var usesServerMirrors: Bool {
        get { downloadSettings.withLock { $0.usesServerMirrors } }
        set { downloadSettings.withLock { $0.usesServerMirrors = newValue } }
    }

    /// Whether the operation finishes only when the file's name is also on the disk (`fsync` of the file and its
    /// directory). The default is false: the bytes are on the disk, but a power failure shortly after completion may
    /// bring back the previous file.
    public final var synchronizesFile: Bool {
        get { downloadSettings.withLock { $0.synchronizes } }
        set { downloadSettings.withLock { $0.synchronizes = newValue } }
    }

    /// Whether the file gets the modification time in `Last-Modified`. The default is true.
    public final var keepsModificationDate: Bool {
        get { downloadSettings.withLock { $0.keepsModificationDate } }
        set { downloadSettings.withLock { $0.keepsModificationDate = newValue } }
    }

    // MARK: Results

    /// The result of a successful download; nil if it has failed or has not finished.
    public final var outcome: DownloadOutcome? { isFinished && error == nil ? download.withLock { $0 }?.outcome : nil }

    /// The URL of the file; nil until its name is known.
    public final var fileURL: URL? { download.withLock { $0 }?.finalURL ?? destination }

    /// The checksums of a downloaded file for ``computedChecksumAlgorithms``, in no particular order; empty unless the
    /// file was downloaded.
    public final var computedChecksums: [Checksum] {
        outcome == .downloaded ? download.withLock { $0 }?.state.withLock { $0.computed } ?? [] : []
    }

    /// The previous length of the file, in bytes, if the server's file had changed its length since an interrupted
    /// download and was fetched from the start; otherwise nil.
    public final var earlierLength: Int64? { download.withLock { $0 }?.state.withLock { $0.earlierLength } }

    /// The current progress and rate. This property can be read on any thread.
    public final var downloadProgress: DownloadProgress {
        guard let download = download.withLock({ $0 }) else { return DownloadProgress(transferProgress) }
        return download.progress(transferProgress)
    }

    /// The progress, starting with the current value. The sequence ends after the final value, when the operation has
    /// finished.
    public final var downloadProgressUpdates: AsyncMapSequence<AsyncStream<TransferProgress>, DownloadProgress> {
        transferProgressUpdates.map { [weak self] progress in
            guard let download = self?.download.withLock({ $0 }) else { return DownloadProgress(progress) }
            return download.progress(progress)
        }
    }

    /// Removes the files that an incomplete download has left beside a destination.
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

    /// The closure that is called once with the destination of a file named by the response, and returns the
    /// destination to use, in the same directory. It is called on the network thread, and must not block.
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

    /// The clock for synchronization, in nanoseconds.
    package final var fileClock: @Sendable () -> UInt64 {
        get { downloadSettings.withLock { $0.clock } }
        set { downloadSettings.withLock { $0.clock = newValue } }
    }

    // MARK: Execution

    /// The closure that checks the complete file before it is renamed to its final name, on a thread that may block. If
    /// it throws, the download fails.
    package final var commitCheck: (@Sendable (_ partialFile: String, _ place: URL) throws -> Void)? {
        get { downloadSettings.withLock { $0.commitCheck } }
        set { downloadSettings.withLock { $0.commitCheck = newValue } }
    }

    /// Copies the settings to a copy of the operation.
    open override func copySettings(to copy: URLConnectionOperation) {
        super.copySettings(to: copy)
        let own = downloadSettings.withLock { $0 }
        (copy as? DownloadOperation)?.downloadSettings.withLock { $0 = own }
    }

    private final class Worker: AttemptRunner {
        var workedClass: ObjectIdentifier { ObjectIdentifier(DownloadOperation.self) }

        func begin(_ work: AttemptContext, of operation: URLConnectionOperation) {
            guard let operation = operation as? DownloadOperation else { return }
            let current = operation.download.withLock { download in
                let current = download ?? Download(operation)
                download = current
                return current
            }
            current.begin(work)
        }

        func release(_ operation: URLConnectionOperation) {
            (operation as? DownloadOperation)?.download.withLock { $0 }?.close()
        }
    }
}

/// Downloads described by a Metalink.
extension DownloadOperation {
    /// Creates a download of a file in a Metalink (RFC 5854) to a directory, with its mirrors, checksums and length.
    /// Directories in the file's name are not created.
    ///
    /// - Throws: ``DownloadError/Reason/noSource`` if the Metalink has no http or https URL for the file.
    public convenience init(_ file: Metalink.File, directory: URL) throws(DownloadError) {
        guard let first = file.mirrors.first else { throw .noSource }
        let place = file.pathComponents.reduce(directory) { $0.appendingPathComponent($1, isDirectory: false) }
        self.init(request: URLRequest(url: first.url), destination: place)
        apply(file)
        mirrors = file.mirrors.dropFirst().map(\.url)
    }

    /// Applies the mirrors, checksums and length in a Metalink. The URL of the request is still used first.
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
    /// Returns the request as sent: without a content encoding, unless it has an `Accept-Encoding` field.
    package static func askingForIdentity(_ request: URLRequest) -> URLRequest {
        guard request.value(forHTTPHeaderField: "Accept-Encoding") == nil else { return request }
        var request = request
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        return request
    }

    /// Returns whether to decode a body that is encoded despite the request. False if the user has requested an
    /// encoding, and for archives that many servers send as encoded contents.
    package static func decodesBody(of request: URLRequest) -> Bool {
        request.value(forHTTPHeaderField: "Accept-Encoding") == nil && !isCompressedFile(request.url)
    }

    static func isCompressedFile(_ url: URL?) -> Bool {
        guard let url else { return false }
        var text = url.absoluteString
        let fileExtension = text.withUTF8 { plainExtension(of: $0) } ?? url.pathExtension.lowercased()
        return compressedExtensions.contains(fileExtension)
    }

    private static let compressedExtensions: Set = ["gz", "tgz", "taz", "svgz", "z", "br", "zst", "tzst", "deb"]

    /// Returns the extension of a URL's last path component, in lower case and empty if it is long. Returns nil if the
    /// component cannot be found without parsing the URL. Much faster than Foundation.
    private static func plainExtension(of url: UnsafeBufferPointer<UInt8>) -> String? {
        var (index, dot) = (url.count, url.count)
        while index > 0, url[index - 1] != UInt8(ascii: "/") {
            index -= 1
            switch url[index] {
            case UInt8(ascii: "%"), UInt8(ascii: "?"), UInt8(ascii: "#"): return nil
            case UInt8(ascii: ".") where dot == url.count: dot = index
            default: break
            }
        }
        // The component may be a host or a hidden file.
        guard index > 1, url[index - 2] != UInt8(ascii: "/"), dot > index else { return dot == url.count ? "" : nil }
        let fileExtension = url[dot...].dropFirst()
        return fileExtension.count > 4 ? "" : String(decoding: fileExtension.map(ASCII.lowercased), as: UTF8.self)
    }
}
