import ConvoySupport
import Foundation
import FoundationNetworking

extension DownloadOperation {
    /// Moves a file that is whole, and has its name, to where it is to be, and answers with its URL there. Called on a thread
    /// that may block; answers once, now or later, on any thread.
    package typealias Relocation =
        @Sendable (
            _ file: URL, _ response: HTTPURLResponse?, _ answer: @escaping @Sendable (Result<URL, any Error>) -> Void
        ) -> Void

    /// Called before the operation ends with a file that was downloaded; nil for none.
    package final var relocation: Relocation? {
        get { downloadSettings.withLock { $0.relocation } }
        set { downloadSettings.withLock { $0.relocation = newValue } }
    }

    /// Whether a file that was there was replaced by the whole, as nothing proves that it is the beginning of the server's; see
    /// ``ExistingFilePolicy/resume``.
    package final var hasReplacedUnprovenFile: Bool {
        outcome == .downloaded && download.withLock { $0 }?.state.withLock { $0.existing?.isReplaced } ?? false
    }

    /// How many bytes of the file this operation has fetched: those that an earlier one has left are not among them.
    package var fetchedByteCount: Int64 {
        download.withLock { $0 }?.state.withLock { $0.plan.contents.sent.values.reduce(0) { $0 + $1.count } } ?? 0
    }

    /// The request that the download would send first, without what is added on the way; nil if it would send none. It asks
    /// for the rest of what an earlier download has left. To be called before the operation is started; blocks. Nothing is
    /// changed.
    ///
    /// - Throws: what the download would fail with before it sends anything.
    package func firstRequest() throws -> URLRequest? {
        // Also what is none of a download stays: nothing is replaced before the download itself is asked for.
        let calls = fileCalls
        fileCalls.unlink = { _ in 0 }
        defer { fileCalls = calls }
        let download = Download(self)
        guard let paths = try download.findPlace() else { return nil }
        var information = stat()
        if lstat(paths.partial, &information) == 0 { try download.open(paths) }
        defer { download.close() }
        if download.state.withLock({ $0.existing }) != nil { return download.questionAboutExisting }
        guard let part = download.state.withLock({ $0.plan.begin() }) else { return nil }
        return download.urlRequest(part)
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
        let compressed = ["gz", "tgz", "taz", "svgz", "z", "br", "zst", "tzst", "deb"]
        return request.value(forHTTPHeaderField: "Accept-Encoding") == nil
            && !compressed.contains(request.url?.pathExtension.lowercased() ?? "")
    }
}

/// Downloads that a Metalink describes.
extension DownloadOperation {
    /// A download of a file of a Metalink (RFC 5854) into a directory, with its mirrors, checksums and length. The
    /// directories in the file's name are not made.
    ///
    /// - Throws: ``DownloadError/noSource`` if the Metalink has no URL of http or https for the file.
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

// The names of AFDownloadRequestOperation, an extension of AFNetworking 2, so that the compiler says what to write now.

/// A download to a file (AFDownloadRequestOperation).
@available(*, unavailable, renamed: "DownloadOperation")
public typealias AFDownloadRequestOperation = DownloadOperation
