import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation

/// The place from which an upload reads its bytes: a file, data or a sequence.
enum UploadSource: Sendable {
    case file(URL)
    case data(Data)
    /// A sequence of pieces, and whether it can be created again.
    case sequence(length: Int64?, canRepeat: Bool, make: @Sendable () -> SequencePump)

    var file: URL? { if case .file(let url) = self { url } else { nil } }
    var isSequence: Bool { if case .sequence = self { true } else { false } }
    var isRepeatableSequence: Bool { if case .sequence(_, true, _) = self { true } else { false } }
}

/// A source with random access that detects changes.
package protocol SeekableSource: AnyObject, Sendable {
    var identity: SourceIdentity { get }
    var length: Int64 { get }

    /// Reads at a position. Returns the number of bytes; 0 at the end. Blocks.
    func read(into buffer: UnsafeMutableRawBufferPointer, at position: Int64) throws(UploadError) -> Int

    /// Throws an error if the source has changed since it was opened. Blocks.
    func check() throws(UploadError)
}

extension SeekableSource {
    /// Reads a range block by block. Blocks.
    package func read(_ range: Range<Int64>, _ use: (UnsafeRawBufferPointer) -> Bool) throws(UploadError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Int(min(128 << 10, max(1, range.upperBound - range.lowerBound))), alignment: 16)
        defer { buffer.deallocate() }
        var position = range.lowerBound
        while position < range.upperBound {
            let wanted = Int(min(Int64(buffer.count), range.upperBound - position))
            let count = try read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]), at: position)
            guard count > 0 else { throw UploadError(.sourceChanged) }
            guard use(UnsafeRawBufferPointer(rebasing: buffer[..<count])) else { return }
            position += Int64(count)
        }
    }

    /// Computes the digest of a range. Blocks.
    func checksum(_ algorithm: ChecksumAlgorithm, of range: Range<Int64>) throws(UploadError) -> Checksum {
        let digest = MessageDigest(algorithm)
        try read(range) { bytes in
            digest.update(bytes)
            return true
        }
        guard let checksum = Checksum(of: digest) else {
            throw UploadError(.unreadableSource("OpenSSL failed to compute the \(algorithm) digest."))
        }
        return checksum
    }
}

/// A source of bytes in memory.
final class DataSource: SeekableSource {
    private let data: Data
    let identity: SourceIdentity

    var length: Int64 { identity.size }

    init(_ data: Data) {
        self.data = data
        identity = SourceIdentity(size: Int64(data.count))
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at position: Int64) throws(UploadError) -> Int {
        guard position >= 0, position < length else { return 0 }
        let start = data.startIndex + Int(position)
        let count = min(buffer.count, data.endIndex - start)
        data.copyBytes(to: buffer, from: start..<(start + count))
        return count
    }

    func check() throws(UploadError) {}
}
