import ConvoySupport
import Foundation

/// The lock that is held while a database is opened or set aside: a file beside it, `<path>.lock`, which stays.
///
/// It cannot be the database itself: closing that would drop SQLite's locks on it.
struct DatabaseLock {
    private let descriptor: Int32

    /// Waits for the lock.
    ///
    /// - Throws: `.busy` if another process holds it for longer than `timeout` seconds, which must not hang for ever
    ///   because a process was stopped by a debugger.
    init(_ path: String, timeout: TimeInterval) throws(DatabaseError) {
        let lockPath = "\(path).lock"
        descriptor = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else {
            let error = SystemError()
            throw DatabaseError(
                [EACCES, EROFS, EPERM].contains(error.code) ? .readOnly : .cannotOpen, error.text, path: path)
        }
        let deadline = Nanoseconds.deadline(timeout, after: MonotonicClock.now)
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let error = SystemError()
            // A file system without locks has no second process either that matters.
            if [ENOLCK, ENOSYS, EOPNOTSUPP].contains(error.code) { return }
            guard [EWOULDBLOCK, EINTR].contains(error.code), MonotonicClock.now < deadline else {
                close(descriptor)
                throw DatabaseError(
                    error.code == EWOULDBLOCK ? .busy : .io, "\(lockPath): \(error.text)", path: path)
            }
            usleep(2000)
        }
    }

    func release() { close(descriptor) }
}
