import ConvoySupport
import Foundation
import FoundationNetworking

extension DownloadOperation {
    /// A closure that moves a complete file from its destination to a different URL, and calls `answer` with that URL
    /// once, immediately or later, on any thread. It is called on a thread that may block.
    package typealias Relocation =
        @Sendable (
            _ file: URL, _ response: HTTPURLResponse?, _ answer: @escaping @Sendable (Result<URL, any Error>) -> Void
        ) -> Void

    /// The closure called before the operation finishes with a downloaded file, if any.
    package final var relocation: Relocation? {
        get { downloadSettings.withLock { $0.relocation } }
        set { downloadSettings.withLock { $0.relocation = newValue } }
    }

    /// Whether an existing file was replaced by a complete download, because nothing showed that it was a prefix of the
    /// server's file; see ``ExistingFilePolicy/resume``.
    package final var hasReplacedUnprovenFile: Bool {
        outcome == .downloaded && download.withLock { $0 }?.state.withLock { $0.existing?.isReplaced } ?? false
    }

    /// The number of bytes fetched by this operation, excluding those fetched by earlier operations.
    package var fetchedByteCount: Int64 {
        download.withLock { $0 }?.state.withLock { $0.plan.contents.sent.values.reduce(0) { $0 + $1.count } } ?? 0
    }

    /// Returns the first request that the download would send; nil if it would not send any. The request is for the
    /// bytes that an earlier download has not stored. Call this method before starting the operation. Blocks, and
    /// changes nothing.
    ///
    /// - Throws: The error with which the download would fail before sending a request.
    package func firstRequest() throws -> URLRequest? {
        // Do not remove anything, not even an unrelated file, because only the download itself may do so.
        let calls = fileCalls
        fileCalls.unlink = { _ in 0 }
        defer { fileCalls = calls }
        let download = Download(self)
        guard let paths = try download.findPlace() else { return nil }
        var information = stat()
        if lstat(paths.partial, &information) == 0 { try download.open(paths) }
        defer { download.close() }
        if download.state.withLock({ $0.existing }) != nil {
            return DownloadOperation.askingForIdentity(download.questionAboutExisting)
        }
        guard let part = download.state.withLock({ $0.plan.begin() }) else { return nil }
        return DownloadOperation.askingForIdentity(download.urlRequest(part))
    }
}
