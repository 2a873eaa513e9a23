import CSQLite
import ConvoySupport
import Foundation

/// A connection to an SQLite database of one kind, which other connections and processes may share.
///
/// It keeps the file sound when a process is killed at any moment, when the disk is full, and when another process
/// writes at the same time. It is written through a log beside it (WAL mode, `-wal` and `-shm`), which stays there when
/// the connection is closed. After a failure of the power the last transactions may be missing, but not parts of them.
///
/// Not thread-safe: its owner uses it from one thread at a time, which may block on the disk, and up to the busy timeout
/// on other writers.
package final class Database: @unchecked Sendable {
    /// The path with its directory's links resolved.
    package let path: String
    let handle: OpaquePointer
    /// Which file this connection has open.
    package let file: DatabaseFile?
    /// Prepared statements that nobody uses now, by their SQL.
    private var statements: [String: Statement] = [:]
    private var isInTransaction = false

    /// Opens a database, or creates it with the mode 0600.
    ///
    /// - Parameters:
    ///   - path: where. The last component must not be a link.
    ///   - schema: an empty database gets its tables, an older one the steps that it lacks, both in one transaction.
    ///   - busyTimeout: how many seconds to wait for other connections' locks.
    ///   - journalLimit: the size in bytes to which the log is truncated once its contents are in the database.
    /// - Throws: `DatabaseError`. A database of another program or a newer version is left as it is, and so is one that is
    ///   another user's or that others can write to.
    package init(
        path: String, schema: DatabaseSchema, busyTimeout: TimeInterval = 5, journalLimit: Int64 = 1 << 20
    ) throws(DatabaseError) {
        let path = try Self.resolved(path)
        // Held until the schema is there, so that no other process sets the file aside meanwhile, and two that open a
        // new database at once do not disturb each other.
        let lock = try DatabaseLock(path, timeout: busyTimeout)
        defer { lock.release() }
        handle = try Self.connect(path, busyTimeout)
        self.path = path
        file = DatabaseFile(path)
        do throws(DatabaseError) {
            try configure(schema, journalLimit)
            // SQLite has opened its log by now.
            try Self.examine(path)
        } catch {
            guard error.code == .damaged else { throw error }
            throw DatabaseError(
                .damaged, error.text, path: path, extendedCode: error.extendedCode, damagedFile: file)
        }
    }

    deinit {
        for statement in statements.values { statement.finalize() }
        sqlite3_close_v2(handle)
    }

    /// Whether the file at the path is still the one that is open. Once it is not, another process has set it aside, and
    /// what is written here is lost: it must be opened again.
    package var isCurrent: Bool {
        var hasMoved: Int32 = 0
        guard sqlite3_file_control(handle, nil, SQLITE_FCNTL_HAS_MOVED, &hasMoved) == SQLITE_OK else { return true }
        return hasMoved == 0
    }

    func error(_ result: Int32) -> DatabaseError { DatabaseError(handle, result: result, path: path) }

    // MARK: Statements

    /// Runs SQL without results: one statement or more.
    package func execute(_ sql: String) throws(DatabaseError) {
        let result = sqlite3_exec(handle, sql, nil, nil, nil)
        guard result == SQLITE_OK else { throw error(result) }
    }

    /// Prepares a statement, or takes the one of an earlier call, and resets it when the closure is done.
    ///
    /// - Parameter sql: one statement, constant: each text is kept with the connection.
    package func withStatement<Result>(
        _ sql: String, _ values: [DatabaseValue] = [], _ body: (Statement) throws(DatabaseError) -> Result
    ) throws(DatabaseError) -> Result {
        // Taken out meanwhile, so that the closure can use another one of the same text.
        let statement: Statement
        if let cached = statements.removeValue(forKey: sql) { statement = cached } else { statement = try prepare(sql) }
        defer {
            statement.reset()
            if let other = statements.updateValue(statement, forKey: sql) { other.finalize() }
        }
        try statement.bind(values)
        return try body(statement)
    }

    /// Runs a statement to its end.
    ///
    /// - Returns: how many rows it has changed.
    @discardableResult
    package func run(_ sql: String, _ values: [DatabaseValue] = []) throws(DatabaseError) -> Int {
        try withStatement(sql, values) { statement throws(DatabaseError) in try statement.run() }
        return Int(sqlite3_changes(handle))
    }

    /// Calls a closure with each row of a query; the statement gives its columns.
    package func forEachRow(
        _ sql: String, _ values: [DatabaseValue] = [], _ body: (Statement) throws(DatabaseError) -> Void
    ) throws(DatabaseError) {
        try withStatement(sql, values) { statement throws(DatabaseError) in
            while try statement.step() { try body(statement) }
        }
    }

    /// The number in the first column of a query's first row; nil if it has no row.
    package func integer(_ sql: String, _ values: [DatabaseValue] = []) throws(DatabaseError) -> Int64? {
        try withStatement(sql, values) { statement throws(DatabaseError) in
            try statement.step() ? statement.integer(0) : nil
        }
    }

    private func prepare(_ sql: String) throws(DatabaseError) -> Statement {
        var prepared: OpaquePointer?
        let result = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard result == SQLITE_OK else { throw error(result) }
        guard let prepared else { throw DatabaseError(.other, "The statement is empty.", path: path) }
        return Statement(prepared, self)
    }

    /// The id of the row that was inserted last.
    package var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(handle) }

    /// A number that differs from the last one if another connection has committed a change meanwhile.
    package func dataVersion() throws(DatabaseError) -> Int64 { try integer("PRAGMA data_version") ?? 0 }

    // MARK: Transactions

    /// Runs a closure in a transaction that holds the write lock from its start, and commits it. If it throws, or cannot
    /// be committed, nothing of it is in the file.
    ///
    /// - Throws: what the closure throws; `.replaced` if another process has set the file aside; `.busy` if another one
    ///   holds the lock for longer than the timeout.
    @discardableResult
    package func transaction<Result>(_ body: () throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        guard !isInTransaction else { return try body() }
        guard isCurrent else { throw DatabaseError(.replaced, "The file was replaced.", path: path) }
        try execute("BEGIN IMMEDIATE")
        isInTransaction = true
        defer { isInTransaction = false }
        do throws(DatabaseError) {
            let result = try body()
            try commit()
            return result
        } catch {
            // Some errors, like a full disk, have already ended it.
            if sqlite3_get_autocommit(handle) == 0 { try? execute("ROLLBACK") }
            throw error
        }
    }

    private func commit() throws(DatabaseError) {
        // When a commit fails, SQLite does not keep the system's error, which tells a full disk from a broken one.
        errno = 0
        let result = sqlite3_exec(handle, "COMMIT", nil, nil, nil)
        let systemCode = errno
        guard result == SQLITE_OK else {
            throw DatabaseError(handle, result: result, systemCode: systemCode, path: path)
        }
    }
}
