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
        do throws(PrivateFile.Failure) {
            descriptor = try PrivateFile.openOrCreate(lockPath)
        } catch {
            switch error {
            case .unsafe(let flaw): throw DatabaseError(.unsafe, "\(lockPath): \(flaw.reason)", path: path)
            case .system(let error):
                throw DatabaseError(
                    [EACCES, EROFS, EPERM].contains(error.code) ? .readOnly : .cannotOpen, error.text, path: path)
            }
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
