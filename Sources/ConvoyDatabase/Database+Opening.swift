import CSQLite
import ConvoySupport
import Foundation

extension Database {
    /// The path without links in its directory. SQLite would refuse those as well, which are no danger: who can change
    /// them can change everything below.
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
        var connection: OpaquePointer?
        let flags =
            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW
            | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE
        let result = sqlite3_open_v2(path, &connection, flags, nil)
        guard result == SQLITE_OK, let connection else {
            defer { sqlite3_close_v2(connection) }
            throw DatabaseError(connection, result: result, path: path)
        }
        let milliseconds = Nanoseconds.clamping(seconds: busyTimeout) / 1_000_000
        sqlite3_busy_timeout(connection, Int32(clamping: milliseconds))
        return connection
    }

    /// Held while a file is created, as two threads would write to the same new one.
    private static let isCreating = Locked(false)

    /// Creates an empty file with the mode 0600 if there is none. SQLite gives its other files the same mode.
    ///
    /// It is closed before it has its final name: closing a file drops all locks that this process has on it, those of
    /// other connections too.
    private static func create(_ path: String) throws(DatabaseError) {
        if FileIdentity(path) != nil { return }
        let new = "\(path).new"
        try isCreating.withLock { _ throws(DatabaseError) in
            let descriptor = open(new, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
            guard descriptor >= 0 else {
                let error = SystemError()
                let code: DatabaseError.Code =
                    switch error.code {
                    case EACCES, EROFS, EPERM: .readOnly
                    case ENOSPC, EDQUOT: .full
                    default: .cannotOpen
                    }
                throw DatabaseError(code, error.text, path: path)
            }
            close(descriptor)
            let calls = FileCalls()
            // If another process was faster, either the name is taken or the new file is gone.
            if calls.renameWithoutReplacing(new, path) == 0 || errno == ENOENT { return }
            if errno != EEXIST { _ = calls.link(new, path) }
            _ = calls.unlink(new)
        }
    }

    func configure(_ schema: DatabaseSchema, _ journalLimit: Int64) throws(DatabaseError) {
        // Otherwise the connection that closes last removes the log by its name, which may by then belong to another
        // database, if another process has replaced this one.
        var keepsLog: Int32 = 1
        sqlite3_file_control(handle, nil, SQLITE_FCNTL_PERSIST_WAL, &keepsLog)
        try execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON")
        // Nothing is changed before it is known whose database it is.
        guard try version(of: schema) <= schema.version else {
            throw DatabaseError(.newer, "A newer version of the library has written it.", path: path)
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

    /// The version of the database; 0 for an empty one.
    ///
    /// - Throws: `.foreign` if it is not of this kind.
    private func version(of schema: DatabaseSchema) throws(DatabaseError) -> Int64 {
        let kind = try integer("PRAGMA application_id") ?? 0
        let version = try integer("PRAGMA user_version") ?? 0
        let tables = try integer("SELECT count(*) FROM sqlite_schema") ?? 0
        if kind == 0, version == 0, tables == 0 { return 0 }
        guard kind == Int64(schema.applicationID), version >= 1 else {
            throw DatabaseError(.foreign, "Another program has written it.", path: path)
        }
        return version
    }
}
