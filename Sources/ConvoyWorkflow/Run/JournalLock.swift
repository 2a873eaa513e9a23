import ConvoySupport
import Foundation

/// Another run, of this process or of another one, has the journal of a run.
public struct JournalInUseError: Error, Sendable, LocalizedError, CustomStringConvertible {
    /// The journal.
    public let file: URL

    /// What has happened, in a sentence.
    public var description: String { "Another run has the journal \(file.relativePath)." }
    /// The same as ``description``.
    public var errorDescription: String? { description }
}

/// Keeps a journal for one run at a time, until it is released or the process ends.
///
/// A lock of the first byte of `<journal>.lock`. The database locks the same file in another way (`flock`), and only while it
/// is opened.
final class JournalLock: Sendable {
    /// `F_OFD_SETLK`, which the C library has behind a macro: a lock of the open file, not of the process.
    private static let setLock: Int32 = 37

    private let descriptor: Locked<Int32?>

    /// - Throws: ``JournalInUseError``. Where there can be no lock, there is none: opening the database says why.
    init(for file: URL) throws(JournalInUseError) {
        let opened = open(file.path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        descriptor = Locked(opened >= 0 ? opened : nil)
        guard opened >= 0 else { return }
        var range = flock()
        (range.l_type, range.l_whence, range.l_start, range.l_len) = (Int16(F_WRLCK), Int16(SEEK_SET), 0, 1)
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
