import CSQLite
import ConvoySupport
import Foundation

extension Database {
    /// Returns the path with all symbolic links in its directory resolved. SQLite would reject them, although they are
    /// safe: a user who can change such a link can change everything below it.
    static func resolved(_ path: String) throws(DatabaseError) -> String {
        let url = URL(fileURLWithPath: path)
        let directory = url.deletingLastPathComponent().path
        guard let real = realpath(directory, nil) else {
            throw DatabaseError(.cannotOpen, SystemError().text, path: path)
        }
        defer { free(real) }
        let resolved = String(cString: real)
        return (resolved == "/" ? "" : resolved) + "/" + url.lastPathComponent
    }

    static func connect(_ path: String, _ busyTimeout: TimeInterval) throws(DatabaseError) -> OpaquePointer {
        try create(path)
        try examine(path)
        let examined = FileIdentity(path)
        var connection: OpaquePointer?
        let flags =
            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW
            | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE
        let result = sqlite3_open_v2(path, &connection, flags, nil)
        guard result == SQLITE_OK, let connection else {
            defer { sqlite3_close_v2(connection) }
            throw DatabaseError(connection, result: result, path: path)
        }
        // Another process may have replaced the file in the meantime.
        var hasMoved: Int32 = 0
        sqlite3_file_control(connection, nil, SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        guard hasMoved == 0, examined == FileIdentity(path) else {
            sqlite3_close_v2(connection)
            throw DatabaseError(.replaced, "The file was replaced while it was being opened.", path: path)
        }
        let milliseconds = Nanoseconds.clamping(seconds: busyTimeout) / 1_000_000
        sqlite3_busy_timeout(connection, Int32(clamping: milliseconds))
        return connection
    }

    /// Creates an empty file with the mode 0600 if the file does not exist. SQLite gives its other files the same mode.
    ///
    /// The file is closed before it receives its final name, because closing a file drops all locks of this process on
    /// it, including those of other connections.
    private static func create(_ path: String) throws(DatabaseError) {
        if FileIdentity(path) != nil { return }
        do throws(FileWritingError) {
            try FileWriter(private: path, replaces: false).commit()
        } catch {
            let code: DatabaseError.Code
            switch error.cause.code {
            // Another process created it first.
            case EEXIST: return
            case EACCES, EROFS, EPERM: code = .readOnly
            case ENOSPC, EDQUOT: code = .full
            default: code = .cannotOpen
            }
            throw DatabaseError(code, error.cause.text, path: path)
        }
    }

    /// Checks the owner and mode of the database and of SQLite's files next to it. SQLite trusts these files, so a
    /// forged log could add arbitrary rows.
    ///
    /// The files are not opened for reading, because closing them would drop the locks of other connections in this
    /// process.
    static func examine(_ path: String) throws(DatabaseError) {
        for name in [path, "\(path)-wal", "\(path)-shm", "\(path)-journal"] {
            do throws(PrivateFile.Failure) {
                try PrivateFile.examine(name)
            } catch {
                switch error {
                case .unsafe(.link), .unsafe(.notRegularFile), .unsafe(.notDirectory):
                    throw DatabaseError(.cannotOpen, "\(name): \(error.reason)", path: path)
                case .unsafe(let flaw):
                    let text = name == path ? flaw.reason : "\(name): \(flaw.reason)"
                    throw DatabaseError(.unsafe, text, path: path, damagedFile: DatabaseFile(path))
                case .system(let error): throw DatabaseError(.cannotOpen, error.text, path: path)
                }
            }
        }
    }

    func configure(_ schema: DatabaseSchema, _ journalLimit: Int64, keepsLog: Bool) throws(DatabaseError) {
        // Without this setting, the last connection to close removes the log by name. By then, the log may belong to a
        // different database, if another process has replaced this one.
        var keepsLog: Int32 = keepsLog ? 1 : 0
        sqlite3_file_control(handle, nil, SQLITE_FCNTL_PERSIST_WAL, &keepsLog)
        try execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON")
        // Before changing anything, check that the database has this schema.
        guard try version(of: schema) <= schema.version else {
            throw DatabaseError(.newer, "The file was written by a newer version of the library.", path: path)
        }
        try run("PRAGMA journal_mode=WAL")
        try execute("PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=\(journalLimit); PRAGMA foreign_keys=ON")
        guard try version(of: schema) < schema.version else { return }
        try transaction { () throws(DatabaseError) in
            let version = try version(of: schema)
            guard version < schema.version else { return }
            for step in schema.steps.dropFirst(Int(version)) { try execute(step) }
            try execute("PRAGMA application_id=\(schema.applicationID); PRAGMA user_version=\(schema.version)")
        }
    }

    /// Returns the version of the database; 0 if it is empty.
    ///
    /// - Throws: `.foreign` if the database has a different schema.
    private func version(of schema: DatabaseSchema) throws(DatabaseError) -> Int64 {
        let kind = try integer("PRAGMA application_id") ?? 0
        let version = try integer("PRAGMA user_version") ?? 0
        let tables = try integer("SELECT count(*) FROM sqlite_schema") ?? 0
        if kind == 0, version == 0, tables == 0 { return 0 }
        guard kind == Int64(schema.applicationID), version >= 1 else {
            throw DatabaseError(.foreign, "The file was written by another program.", path: path)
        }
        return version
    }
}

/// The identity of a database file, which does not change when the file is renamed.
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
    /// Renames a damaged database to `<path>.damaged`, so that the next connection creates a new one. Replaces an
    /// existing file of that name.
    ///
    /// Other connections to the database detect the change with ``isCurrent``, or with the error `.replaced` in their
    /// next transaction.
    ///
    /// - Parameters:
    ///   - file: The damaged file. If another process has already replaced it, nothing happens.
    ///   - path: The path of the database.
    /// - Returns: Whether this call renamed the file.
    @discardableResult
    package static func quarantine(
        _ file: DatabaseFile, at path: String, timeout: TimeInterval = 5
    ) throws(DatabaseError) -> Bool {
        let path = try resolved(path)
        let lock = try DatabaseLock(path, timeout: timeout)
        defer { lock.release() }
        guard DatabaseFile(path) == file else { return false }
        // Remove the log first. Otherwise SQLite would apply it to the next database at this path.
        for name in ["\(path)-wal", "\(path)-shm"] where unlink(name) != 0 && errno != ENOENT {
            throw DatabaseError(.io, SystemError().text, path: path)
        }
        guard rename(path, "\(path).damaged") == 0 else { throw DatabaseError(.io, SystemError().text, path: path) }
        return true
    }
}

/// The lock that is held while a database is opened or renamed: a file next to it, `<path>.lock`, which is never
/// removed.
///
/// The database itself cannot serve as the lock, because closing it would drop SQLite's locks on it.
struct DatabaseLock {
    private let descriptor: Int32

    /// Waits for the lock.
    ///
    /// - Throws: `.busy` if another process holds the lock for longer than `timeout` seconds, for example because it
    ///   has been stopped by a debugger.
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
            // The file system does not support locks. Continue without one, because processes do not share such a file
            // system.
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
