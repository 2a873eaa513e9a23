import ConvoySecurity
import ConvoySupport
import Foundation

/// A file of a Metalink while its elements are being read.
///
/// Numbers and digests that say what the bytes must be are errors if they are wrong: without them, wrong bytes would
/// pass. URLs and priorities are hints; bad ones are skipped.
struct MetalinkDraft {
    private struct Pieces {
        var algorithm: ChecksumAlgorithm?
        var length: Int64
        var checksums: [Checksum] = []
    }

    private let pathComponents: [String]
    private var size: Int64?
    private var checksums: [ChecksumAlgorithm: Checksum] = [:]
    private var pieces: [ChecksumAlgorithm: Metalink.Pieces] = [:]
    private var openPieces: Pieces?
    private var mirrors: [DownloadMirror] = []
    private var urlCount = 0

    init(pathComponents: [String] = []) { self.pathComponents = pathComponents }

    mutating func setSize(_ text: ArraySlice<UInt8>, line: Int) throws(MetalinkError) {
        guard let value = DecimalNumber.parse(text) else { throw Self.invalid("size", text, line) }
        guard size == nil || size == value else { throw .repeated(element: "size", line: line) }
        size = value
    }

    mutating func addURL(
        _ text: ArraySlice<UInt8>, _ priority: String?, _ location: String?, line: Int
    ) throws(MetalinkError) {
        urlCount += 1
        guard urlCount <= Metalink.maximumMirrorCount else {
            throw .tooMany(element: "url", limit: Metalink.maximumMirrorCount, line: line)
        }
        let reference = String(decoding: text, as: UTF8.self)
        if let mirror = DownloadMirror(reference, relativeTo: nil, priority: priority, location: location) {
            mirrors.append(mirror)
        }
    }

    mutating func addHash(
        _ algorithm: ChecksumAlgorithm?, _ text: ArraySlice<UInt8>, line: Int
    ) throws(MetalinkError) {
        guard let algorithm else { return }
        let checksum = try Self.checksum(algorithm, text, line)
        guard checksums[algorithm] == nil || checksums[algorithm] == checksum else {
            throw .repeated(element: "hash", line: line)
        }
        checksums[algorithm] = checksum
    }

    // MARK: Pieces

    mutating func startPieces(_ algorithm: ChecksumAlgorithm?, length: String, line: Int) throws(MetalinkError) {
        guard let value = DecimalNumber.parse(length.utf8), value > 0 else {
            throw Self.invalid("pieces", length.utf8, line)
        }
        if let algorithm, pieces[algorithm] != nil { throw .repeated(element: "pieces", line: line) }
        openPieces = Pieces(algorithm: algorithm, length: value)
    }

    mutating func addPiece(_ text: ArraySlice<UInt8>, line: Int) throws(MetalinkError) {
        guard let algorithm = openPieces?.algorithm else { return }
        openPieces?.checksums.append(try Self.checksum(algorithm, text, line))
    }

    mutating func endPieces(line: Int) throws(MetalinkError) {
        defer { openPieces = nil }
        guard let done = openPieces, let algorithm = done.algorithm else { return }
        guard !done.checksums.isEmpty else { throw .wrongPieceCount(found: 0, expected: 1, line: line) }
        pieces[algorithm] = Metalink.Pieces(algorithm: algorithm, length: done.length, checksums: done.checksums)
    }

    // MARK: The end

    func file(line: Int) throws(MetalinkError) -> Metalink.File {
        for pieces in pieces.values {
            guard let size else { break }
            let expected = size == 0 ? 0 : (size - 1) / pieces.length + 1
            // Some programs write one digest, that of no bytes, for an empty file.
            guard pieces.checksums.count == expected || (size == 0 && pieces.checksums.count == 1) else {
                throw .wrongPieceCount(found: pieces.checksums.count, expected: expected, line: line)
            }
        }
        let strongest = pieces.keys.max().flatMap { pieces[$0] }
        return Metalink.File(
            pathComponents: pathComponents, size: size,
            checksums: checksums.values.sorted { $0.algorithm > $1.algorithm },
            pieces: size == 0 ? nil : strongest, mirrors: DownloadMirror.sorted(mirrors))
    }

    private static func checksum(
        _ algorithm: ChecksumAlgorithm, _ text: ArraySlice<UInt8>, _ line: Int
    ) throws(MetalinkError) -> Checksum {
        guard let bytes = HexadecimalDigits.bytes(of: text), let checksum = try? Checksum(algorithm, digest: bytes) else {
            throw invalid("hash", text, line)
        }
        return checksum
    }

    private static func invalid(_ element: String, _ value: some Collection<UInt8>, _ line: Int) -> MetalinkError {
        .invalidValue(element: element, value: MetalinkAttributes.shown(value), line: line)
    }
}
