import ConvoySupport
import Foundation

/// An error for a journal that another run uses, in this process or in another process.
public struct JournalInUseError: Error, Sendable, SelfDescribingError {
    /// The journal file.
    public let file: URL

    /// A sentence that describes the error.
    public var description: String { "The journal \(file.relativePath) is in use by another run." }
}

/// A lock that reserves a journal for one run, until it is released or the process ends.
///
/// The lock covers the first byte of `<journal>.lock`. The database locks the same file with `flock`, but only while it
/// is being opened.
final class JournalLock: Sendable {
    /// `F_OFD_SETLK`, which the C library hides behind a macro. It locks the open file rather than the process.
    private static let setLock: Int32 = 37

    private let descriptor: Locked<Int32?>

    /// Throws ``JournalInUseError``. If locking is not possible, the journal is not locked; opening the database then
    /// reports the problem.
    init(for file: URL) throws(JournalInUseError) {
        let opened = open(file.path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        descriptor = Locked(opened >= 0 ? opened : nil)
        guard opened >= 0 else { return }
        var range = flock()
        range.l_type = Int16(F_WRLCK)
        range.l_whence = Int16(SEEK_SET)
        range.l_start = 0
        range.l_len = 1
        guard fcntl(opened, Self.setLock, &range) != 0, [EAGAIN, EACCES].contains(errno) else { return }
        release()
        throw JournalInUseError(file: file)
    }

    deinit { release() }

    func release() {
        descriptor.withLock { descriptor in
            if let descriptor { close(descriptor) }
            descriptor = nil
        }
    }
}
