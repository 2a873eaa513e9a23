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
}

/// The identity of a file, as far as the system supports it.
struct SourceIdentity: Codable, Sendable, Hashable {
    let device: UInt64
    let inode: UInt64
    let size: Int64
    /// The times of the last change to the file's contents and to its status, in nanoseconds since 1970.
    let modified: Int64
    let changed: Int64

    init(_ facts: stat) {
        (device, inode, size) = (UInt64(facts.st_dev), UInt64(facts.st_ino), Int64(facts.st_size))
        modified = Self.nanoseconds(facts.st_mtim)
        changed = Self.nanoseconds(facts.st_ctim)
    }

    /// Creates the identity of data or a sequence, which are identified only by their size.
    init(size: Int64) { (device, inode, self.size, modified, changed) = (0, 0, size, 0, 0) }

    /// Returns whether the bytes may be the same, even if the file was moved or renamed.
    func mayEqual(_ other: Self) -> Bool { size == other.size && modified == other.modified }

    /// Returns whether a file was written so shortly before it was inspected that it may have been written again within
    /// the same tick, because timestamps have a limited resolution.
    func isRecent(at now: Int64) -> Bool { now - modified < 2_000_000_000 }

    static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return nanoseconds(time)
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        let (seconds, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : seconds &+ Int64(time.tv_nsec)
    }
}

/// A source with random access that detects changes.
protocol SeekableSource: AnyObject, Sendable {
    var identity: SourceIdentity { get }
    var length: Int64 { get }

    /// Reads at a position. Returns the number of bytes; 0 at the end. Blocks.
    func read(into buffer: UnsafeMutableRawBufferPointer, at position: Int64) throws(UploadError) -> Int

    /// Throws an error if the source has changed since it was opened. Blocks.
    func check() throws(UploadError)
}

extension SeekableSource {
    /// Reads a range block by block. Blocks.
    func read(_ range: Range<Int64>, _ use: (UnsafeRawBufferPointer) -> Bool) throws(UploadError) {
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

/// A regular file, open for reading.
final class FileSource: SeekableSource {
    let identity: SourceIdentity
    private let path: String
    private let descriptor: Int32
    private let calls: FileCalls

    var length: Int64 { identity.size }

    init(_ url: URL, calls: FileCalls) throws(UploadError) {
        guard url.isFileURL, !url.path.isEmpty else { throw UploadError(.unreadableSource("The URL is not a file URL.")) }
        path = url.path
        self.calls = calls
        // Without O_NONBLOCK, opening a pipe would wait for its writer.
        descriptor = calls.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0)
        guard descriptor >= 0 else { throw UploadError(.unreadableSource("\(path): \(SystemError().text)")) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else {
            _ = calls.close(descriptor)
            throw UploadError(.unreadableSource("\(path) is not a regular file."))
        }
        identity = SourceIdentity(facts)
    }

    deinit { _ = calls.close(descriptor) }

    func read(into buffer: UnsafeMutableRawBufferPointer, at position: Int64) throws(UploadError) -> Int {
        while true {
            let count = calls.readAt(descriptor, buffer, position)
            if count >= 0 { return count }
            guard errno == EINTR else { throw UploadError(.unreadableSource("\(path): \(SystemError().text)")) }
        }
    }

    func check() throws(UploadError) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else {
            throw UploadError(.unreadableSource("\(path): \(SystemError().text)"))
        }
        // The file's name, owner and mode may change.
        let now = SourceIdentity(facts)
        guard now.size == identity.size, now.modified == identity.modified else { throw UploadError(.sourceChanged) }
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
