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
        if download.state.withLock({ $0.existing }) != nil {
            return DownloadOperation.askingForIdentity(download.questionAboutExisting)
        }
        guard let part = download.state.withLock({ $0.plan.begin() }) else { return nil }
        return DownloadOperation.askingForIdentity(download.urlRequest(part))
    }
}
