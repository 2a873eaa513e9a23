import ConvoySupport
import Foundation

/// The identity of a file, as far as the system supports it.
package struct SourceIdentity: Codable, Sendable, Hashable {
    let device: UInt64
    let inode: UInt64
    package let size: Int64
    /// The times of the last change to the file's contents and to its status, in nanoseconds since 1970.
    let modified: Int64
    let changed: Int64

    init(_ facts: stat) {
        device = UInt64(facts.st_dev)
        inode = UInt64(facts.st_ino)
        size = Int64(facts.st_size)
        modified = Self.nanoseconds(facts.st_mtim)
        changed = Self.nanoseconds(facts.st_ctim)
    }

    /// Creates the identity of data or a sequence, which are identified only by their size.
    init(size: Int64) {
        device = 0
        inode = 0
        self.size = size
        modified = 0
        changed = 0
    }

    /// Returns whether the bytes may be the same, even if the file was moved or renamed.
    package func mayEqual(_ other: Self) -> Bool { size == other.size && modified == other.modified }

    /// Returns whether both are the same file with the same bytes. The file's name, owner and mode may differ.
    package func isSameFile(as other: Self) -> Bool {
        device == other.device && inode == other.inode && mayEqual(other)
    }

    /// Returns whether the bytes that were sent earlier must be compared with those of the file, because it was moved,
    /// or modified so shortly before it was inspected that its timestamps may not show another change.
    ///
    /// - Parameters:
    ///   - now: The current identity of the file.
    ///   - seen: The time at which this identity was recorded, in nanoseconds since 1970.
    package func mustCompareBytes(with now: Self, seen: Int64) -> Bool {
        let age = seen.subtractingReportingOverflow(modified)
        return self != now || age.overflow || age.partialValue < 2_000_000_000
    }

    package static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return nanoseconds(time)
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        let (seconds, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : seconds &+ Int64(time.tv_nsec)
    }
}

/// A regular file, open for reading.
package final class FileSource: SeekableSource {
    package let identity: SourceIdentity
    private let path: String
    private let descriptor: Int32
    private let calls: FileCalls

    package var length: Int64 { identity.size }

    package init(_ url: URL, calls: FileCalls = FileCalls()) throws(UploadError) {
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

    package func read(into buffer: UnsafeMutableRawBufferPointer, at position: Int64) throws(UploadError) -> Int {
        while true {
            let count = calls.readAt(descriptor, buffer, position)
            if count >= 0 { return count }
            guard errno == EINTR else { throw UploadError(.unreadableSource("\(path): \(SystemError().text)")) }
        }
    }

    package func check() throws(UploadError) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else {
            throw UploadError(.unreadableSource("\(path): \(SystemError().text)"))
        }
        // The file's name, owner and mode may change.
        let now = SourceIdentity(facts)
        guard now.size == identity.size, now.modified == identity.modified else { throw UploadError(.sourceChanged) }
    }
}
