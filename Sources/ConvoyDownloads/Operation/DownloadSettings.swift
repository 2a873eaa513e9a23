import ConvoySecurity
import ConvoySupport
import Foundation

/// The user's settings of a download. Read when it starts.
struct DownloadSettings: Sendable {
    enum Place: Sendable {
        case file(URL)
        /// The name is that of the response, or of the URL.
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
    /// The lengths that the file may have.
    var lengths: ClosedRange<Int64>? { expectedLength.map { $0...$0 } ?? pieces?.lengths }
    /// The error where it has another one.
    func error(ofLength length: Int64?) -> DownloadError? {
        if let expectedLength { return .unexpectedLength(expected: expectedLength, actual: length) }
        return pieces == nil ? nil : .piecesMismatch
    }
    /// The system calls, and the clock of the journal; tests replace them.
    var calls = FileCalls()
    var clock: @Sendable () -> UInt64 = { MonotonicClock.now }
}

/// What a download does where a file has its name already.
public enum ExistingFilePolicy: Sendable, Hashable, Codable {
    /// It fails with ``DownloadError/Reason/fileExists(_:)``, before anything is sent where the name is known by then.
    case fail
    /// It succeeds without sending anything, and the file stays as it is.
    case skip
    /// It asks for the file only if it has changed since (RFC 9110, section 13): with the entity tag and the date that were
    /// stored with the file, or with the time when the file was last modified. If not, it succeeds, and the file stays.
    case revalidate
    /// It replaces the file, at the moment when the new one is whole.
    case replace
    /// It goes on with the file, as `wget -c` does, but only where its bytes can be proven: by the user's checksum, or by a
    /// digest of the whole that the server tells when it is asked by a HEAD. Otherwise the whole is fetched, and replaces the
    /// file when it is whole. A file that has the checksum, or without one is as long as the server's, stays as it is.
    case resume
}

/// What a download that succeeded has done.
public enum DownloadOutcome: Sendable, Hashable {
    /// The file was fetched.
    case downloaded
    /// There was a file, and it was left as it is.
    case skipped
    /// The server says that the file that was there has not changed.
    case notModified
}
