import ConvoySecurity
import ConvoySupport
import Foundation

/// The user's settings of a download, read when it starts.
struct DownloadSettings: Sendable {
    enum Place: Sendable {
        case file(URL)
        /// A directory; the name comes from the response or the URL.
        case directory(URL)
    }

    var place: Place?
    var existing = ExistingFilePolicy.fail
    var usesServerFileName = true
    var placeFilter: (@Sendable (URL) -> URL)?
    var commitCheck: (@Sendable (String, URL) throws -> Void)?
    var checksums: [Checksum] = []
    var computed: Set<ChecksumAlgorithm> = []
    var pieces: PieceChecksums?
    var expectedLength: Int64?
    var segments = 1
    var minimumSegment: Int64 = 1 << 20
    var mirrors: [URL] = []
    var usesServerMirrors = false
    var acceptsUnrelatedContent = false
    var synchronizes = false
    var keepsModificationDate = true
    var relocation: DownloadOperation.Relocation?
    /// The valid lengths of the file.
    var lengths: ClosedRange<Int64>? { expectedLength.map { $0...$0 } ?? pieces?.lengths }
    /// Returns the error for an invalid length; nil if any length is valid.
    func error(ofLength length: Int64?) -> DownloadError? {
        if let expectedLength { return .unexpectedLength(expected: expectedLength, actual: length) }
        return pieces == nil ? nil : .piecesMismatch
    }
    /// The system calls and the clock of the journal, which tests replace.
    var calls = FileCalls()
    var clock: @Sendable () -> UInt64 = { MonotonicClock.now }
}

/// The behaviour of a download if its destination exists.
public enum ExistingFilePolicy: Sendable, Hashable, Codable {
    /// Fails with ``DownloadError/Reason/fileExists(_:)``, before sending a request if the name is already known.
    case fail
    /// Succeeds without sending a request, and keeps the file.
    case skip
    /// Fetches the file only if it has changed (RFC 9110, section 13), according to the entity tag and the date stored
    /// with the file, or its modification time. Otherwise succeeds and keeps the file.
    case revalidate
    /// Replaces the file once the new one is complete.
    case replace
    /// Completes the file, as `wget -c` does, but only if the result can be verified: with the user's checksum, or with
    /// a digest of the complete file in the server's response to a HEAD request. Otherwise fetches the complete file,
    /// which then replaces the existing one. Keeps the file if it matches the checksum or, without a checksum, if it is
    /// as long as the server's.
    case resume
}

/// The result of a successful download.
public enum DownloadOutcome: Sendable, Hashable {
    /// The file was downloaded.
    case downloaded
    /// The file existed and was kept.
    case skipped
    /// The file existed, and the server reported that it has not changed.
    case notModified
}
