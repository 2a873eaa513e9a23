import ConvoySupport
import Foundation

/// The identity of a database file, which stays the same when the file is renamed.
package struct DatabaseFile: Hashable, Sendable {
    private let device: UInt64
    private let number: UInt64

    init?(_ path: String) {
        var facts = stat()
        guard lstat(path, &facts) == 0 else { return nil }
        device = UInt64(facts.st_dev)
        number = UInt64(facts.st_ino)
    }
}

extension Database {
    /// Sets a damaged database aside as `<path>.damaged`, so that the next one to open the path gets a new database. An
    /// older file of that name is replaced.
    ///
    /// Other connections that have it open find out by ``isCurrent``, or by `.replaced` from their next transaction.
    ///
    /// - Parameters:
    ///   - file: the file that was found damaged. Nothing happens if another one is there now: another process has
    ///     replaced it meanwhile.
    ///   - path: of the database.
    /// - Returns: whether it was set aside by this call.
    @discardableResult
    package static func setAside(
        _ file: DatabaseFile, at path: String, timeout: TimeInterval = 5
    ) throws(DatabaseError) -> Bool {
        let path = try resolved(path)
        let lock = try DatabaseLock(path, timeout: timeout)
        defer { lock.release() }
        guard DatabaseFile(path) == file else { return false }
        // The log first: without its database it would be taken for the log of the next one.
        for name in ["\(path)-wal", "\(path)-shm"] where unlink(name) != 0 && errno != ENOENT {
            throw DatabaseError(.io, SystemError().text, path: path)
        }
        guard rename(path, "\(path).damaged") == 0 else { throw DatabaseError(.io, SystemError().text, path: path) }
        return true
    }
}
