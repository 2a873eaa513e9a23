import ConvoySecurity
import ConvoySupport
import Foundation

/// What a download is told by its user. Read when it starts.
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
    var checksums: [Checksum] = []
    var computed: Set<ChecksumAlgorithm> = []
    var pieces: PieceChecksums?
    var expectedLength: Int64?
    var segments = 1
    var minimumSegment: Int64 = 1 << 20
    var mirrors: [URL] = []
    var usesServerMirrors = false
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

/// The checksums of a file's pieces of equal length, as Metalink has them (RFC 5854, section 4.1.1).
public struct PieceChecksums: Sendable, Hashable {
    /// The length of each piece but the last, in bytes.
    public let length: Int64
    /// The checksums in order.
    public let checksums: [Checksum]

    /// The checksums of pieces; nil if the length is not positive, or there are none.
    public init?(length: Int64, checksums: [Checksum]) {
        guard length > 0, !checksums.isEmpty else { return nil }
        (self.length, self.checksums) = (length, checksums)
    }

    /// The positions of a piece in a file of a length; nil if the file has no such piece.
    func range(of index: Int, total: Int64) -> Range<Int64>? {
        let (start, isTooLarge) = length.multipliedReportingOverflow(by: Int64(index))
        guard !isTooLarge, start < total else { return nil }
        return start..<(total - start < length ? total : start + length)
    }

    /// The lengths, in bytes, of the files that they can be those of.
    var lengths: ClosedRange<Int64> {
        let (before, isTooLong) = length.multipliedReportingOverflow(by: Int64(checksums.count) - 1)
        guard !isTooLong, before < .max else { return .max ... .max }
        return before + 1...(before.addingReportingOverflow(length).overflow ? .max : before + length)
    }
}
