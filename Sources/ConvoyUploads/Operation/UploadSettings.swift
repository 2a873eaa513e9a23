import ConvoyDownloads
import ConvoySecurity
import ConvoySupport
import Foundation

/// The number of bytes that an upload sends per request.
public enum UploadChunkSize: Sendable, Hashable {
    /// The number of bytes that the server accepts in about a second, starting at 1 MiB; fewer after a failure.
    case adaptive
    /// A fixed maximum number of bytes.
    case fixed(Int64)
}

/// The behaviour of an upload if an earlier one was not completed, according to its journal and the server.
public enum UploadResumption: Sendable, Hashable {
    /// Resumes the earlier upload. Fails with ``UploadError/Reason/gone(status:)`` if the server no longer has it, and
    /// with ``UploadError/Reason/sourceChanged`` if the source has changed.
    case resume
    /// Resumes the earlier upload, and starts over if the source has changed. If the server no longer has the upload,
    /// fails with ``UploadError/Reason/gone(status:)``.
    case resumeUnlessChanged
    /// Resumes the earlier upload, and starts over if that is not possible: because the server no longer has it, the
    /// source has changed, or the last request may have arrived.
    case resumeOrRestart
    /// Starts over, and ignores the earlier upload.
    case restart

    /// Whether an upload of a changed source starts over.
    var restartsWhenChanged: Bool { self == .resumeUnlessChanged || self == .resumeOrRestart }
    /// Whether an upload that the server no longer has starts over.
    var restartsWhenGone: Bool { self == .resumeOrRestart || self == .restart }
}

/// The user's settings of an upload, read when it starts.
struct UploadSettings: Sendable {
    var source: UploadSource?
    var uploadProtocol = UploadProtocol.automatic
    var chunkSize = UploadChunkSize.adaptive
    var parallelParts = 1
    var minimumPart: Int64 = 1 << 20
    var resumption = UploadResumption.resume
    var chunkChecksum: ChecksumAlgorithm?
    var checksum: Checksum?
    var computed: Set<ChecksumAlgorithm> = []
    var metadata: [String: String] = [:]
    var window: Int = 8 << 20
    var journal: URL?
    var keepsJournal = true
    var uploadURL: URL?
    /// The state of an earlier upload to resume, used unless the journal contains one.
    var resumed: UploadRecord?
    var sendsDataWithCreation = false
    var terminatesWhenCancelled = false
    /// The destination for one complete request; nil for the request's URL.
    var plainURL: URL?
    var adapter: (any UploadAdapter)?
    /// The delay, in milliseconds, before requesting the offset again after the first setback. It increases with each
    /// setback.
    var patience = 50.0
    /// The system calls, which tests replace.
    var calls = FileCalls()
    /// The directory for the journals of files in directories that cannot be written to; nil if there is none.
    var journalDirectory = UploadJournalPlace.userDirectory

    /// The limits of an adaptive chunk, in bytes, and its initial size.
    static let chunks: ClosedRange<Int64> = (64 << 10)...(256 << 20)
    static let firstChunk: Int64 = 1 << 20

    /// Returns the size of the next adaptive chunk after a chunk of the given size took the given time: the bytes per
    /// second, but at most eight times and at least a quarter of the size.
    static func chunk(after size: Int64, in nanoseconds: UInt64) -> Int64 {
        let factor = min(8, max(0.25, 1_000_000_000 / Double(max(1, nanoseconds))))
        return min(chunks.upperBound, max(chunks.lowerBound, Int64(Double(min(size, chunks.upperBound)) * factor)))
    }
}

/// An adapter that sends uploads to a particular kind of storage, with the operation's journal and progress. Used by
/// other modules.
package protocol UploadAdapter: Sendable {
    /// Sends the file. The task is cancelled together with the operation's attempt.
    ///
    /// - Parameter context: The services with which to store state and report progress.
    /// - Returns: The operation's `responseObject`.
    func send(_ file: URL, _ context: UploadAdapterContext) async throws -> any Sendable
}

/// The services available to an adapter.
package struct UploadAdapterContext: Sendable {
    /// The data stored by an earlier attempt or process, if any.
    package let stored: Data?
    /// The data stored by an earlier process for an upload that is not resumed, so that it can be deleted; nil if none.
    package let discarded: Data?
    /// A closure that stores the data that another process needs to resume the upload.
    package let store: @Sendable (Data) async throws -> Void
    /// A closure that reports the number of bytes confirmed by the storage, and the total number.
    package let report: @Sendable (_ confirmed: Int64, _ total: Int64) -> Void
}
