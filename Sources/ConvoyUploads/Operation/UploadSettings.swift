import ConvoyDownloads
import ConvoySecurity
import ConvoySupport
import Foundation

/// How many bytes an upload sends in one request.
public enum UploadChunkSize: Sendable, Hashable {
    /// As many as the server takes in about a second, from 1 MiB on; fewer after a failure.
    case adaptive
    /// At most this many bytes.
    case fixed(Int64)
}

/// What an upload does with what an earlier one has left: in its journal, and at the server.
public enum UploadResumption: Sendable, Hashable {
    /// It goes on with it. Where the server does not have the upload any more, it fails with
    /// ``UploadError/Reason/gone(status:)``.
    case resume
    /// It goes on with it, and begins anew where the server does not have the upload any more.
    case resumeOrRestart
    /// It begins anew, and forgets the earlier one.
    case restart
}

/// The user's settings of an upload. Read when it starts.
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
    /// What another upload has left, if there is no journal.
    var resumed: UploadRecord?
    var sendsDataWithCreation = false
    var terminatesWhenCancelled = false
    /// Where the whole is sent by one request; nil for the request's URL.
    var plainURL: URL?
    var adapter: (any UploadAdapter)?
    /// Milliseconds before the first question after a setback; longer each time.
    var patience = 50.0
    /// The system calls; tests replace them.
    var calls = FileCalls()

    /// The limits of an adaptive chunk, in bytes, and its first size.
    static let chunks: ClosedRange<Int64> = (64 << 10)...(256 << 20)
    static let firstChunk: Int64 = 1 << 20

    /// The size of an adaptive chunk after one of this size took so long: what a second would take, but no more than eight
    /// times as many bytes, and no less than a quarter.
    static func chunk(after size: Int64, in nanoseconds: UInt64) -> Int64 {
        let factor = min(8, max(0.25, 1_000_000_000 / Double(max(1, nanoseconds))))
        return min(chunks.upperBound, max(chunks.lowerBound, Int64(Double(min(size, chunks.upperBound)) * factor)))
    }
}

/// Carries an upload to a kind of store of its own, with the operation's journal and progress. For other modules.
package protocol UploadAdapter: Sendable {
    /// Sends the file. Cancelled with the operation's attempt.
    ///
    /// - Parameter context: what it may use, and reports to.
    /// - Returns: the operation's `responseObject`.
    func send(_ file: URL, _ context: UploadAdapterContext) async throws -> any Sendable
}

/// What an adapter of an upload may use, and reports to.
package struct UploadAdapterContext: Sendable {
    /// What an earlier attempt, or an earlier process, has stored; nil for nothing.
    package let stored: Data?
    /// Stores what another process needs to go on.
    package let store: @Sendable (Data) throws -> Void
    /// Reports how many bytes the store has confirmed, and how many there are.
    package let report: @Sendable (_ confirmed: Int64, _ total: Int64) -> Void
}
