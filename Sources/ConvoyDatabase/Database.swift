import CSQLite
import ConvoySupport
import Foundation

/// A connection to an SQLite database with a known schema. Other connections and processes may use the database as
/// well.
///
/// The file stays intact if a process is killed at any time, if the disk is full, and if another process writes
/// concurrently. Writes go to a log next to the file (WAL mode, `-wal` and `-shm`), which remains after the connection
/// is closed unless `keepsLog` is false. After a power failure, the last transactions may be lost, but never a part of
/// a transaction.
///
/// A connection is not thread-safe. Calls block on the disk, and on other writers for at most the busy timeout.
package final class Database: @unchecked Sendable {
    /// The path, with the links in its directory resolved.
    package let path: String
    let handle: OpaquePointer
    /// The file that this connection has opened.
    package let file: DatabaseFile?
    /// The cached statements that are not in use, by their SQL.
    private var statements: [String: Statement] = [:]
    private var isInTransaction = false

    /// Opens a database, or creates it with the mode 0600.
    ///
    /// - Parameters:
    ///   - path: The path. Its last component must not be a link.
    ///   - schema: The schema. All steps are applied to an empty database, and the missing steps to an older one, in a
    ///     single transaction.
    ///   - busyTimeout: The maximum time to wait for the locks of other connections, in seconds.
    ///   - journalLimit: The size, in bytes, to which the log is truncated after its contents have been written to the
    ///     database.
    ///   - keepsLog: Whether the log remains when the last connection is closed. This is required if processes replace
    ///     a damaged database.
    /// - Throws: `DatabaseError`. The file is not changed if it belongs to another program, a newer version or another
    ///   user, or if others can write to it.
    package init(
        path: String, schema: DatabaseSchema, busyTimeout: TimeInterval = 5, journalLimit: Int64 = 1 << 20,
        keepsLog: Bool = true
    ) throws(DatabaseError) {
        let path = try Self.resolved(path)
        // Hold the lock until the schema is complete, so that no other process renames the file, and two processes do
        // not both create a database.
        let lock = try DatabaseLock(path, timeout: busyTimeout)
        defer { lock.release() }
        handle = try Self.connect(path, busyTimeout)
        self.path = path
        file = DatabaseFile(path)
        do throws(DatabaseError) {
            try configure(schema, journalLimit, keepsLog: keepsLog)
            // Examine the files again, because SQLite has opened its log by now.
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

    /// Whether the path still refers to the open file. If not, another process has renamed the file, and writes to this
    /// connection are lost. Open the database again.
    package var isCurrent: Bool {
        var hasMoved: Int32 = 0
        guard sqlite3_file_control(handle, nil, SQLITE_FCNTL_HAS_MOVED, &hasMoved) == SQLITE_OK else { return true }
        return hasMoved == 0
    }

    func error(_ result: Int32) -> DatabaseError { DatabaseError(handle, result: result, path: path) }

    // MARK: Statements

    /// Runs one or more SQL statements without results.
    package func execute(_ sql: String) throws(DatabaseError) {
        let result = sqlite3_exec(handle, sql, nil, nil, nil)
        guard result == SQLITE_OK else { throw error(result) }
    }

    /// Passes a prepared statement to the closure, reusing a cached one if possible, and resets it afterwards.
    ///
    /// - Parameter sql: A single statement. It must be a constant, because the connection caches it.
    package func withStatement<Result>(
        _ sql: String, _ values: [DatabaseValue] = [], _ body: (Statement) throws(DatabaseError) -> Result
    ) throws(DatabaseError) -> Result {
        // Remove the statement from the cache, so that the closure can use another statement with the same SQL.
        let statement: Statement
        if let cached = statements.removeValue(forKey: sql) { statement = cached } else { statement = try prepare(sql) }
        defer {
            statement.reset()
            if let other = statements.updateValue(statement, forKey: sql) { other.finalize() }
        }
        try statement.bind(values)
        let result = try body(statement)
        if statement.hasLostValue { throw error(SQLITE_NOMEM) }
        return result
    }

    /// Runs a statement to completion.
    ///
    /// - Returns: The number of changed rows.
    @discardableResult
    package func run(_ sql: String, _ values: [DatabaseValue] = []) throws(DatabaseError) -> Int {
        try withStatement(sql, values) { statement throws(DatabaseError) in try statement.run() }
        return Int(sqlite3_changes(handle))
    }

    /// Calls a closure for each row of a query, passing the statement from which to read the columns.
    package func forEachRow(
        _ sql: String, _ values: [DatabaseValue] = [], _ body: (Statement) throws(DatabaseError) -> Void
    ) throws(DatabaseError) {
        try withStatement(sql, values) { statement throws(DatabaseError) in
            while try statement.step() { try body(statement) }
        }
    }

    /// Returns the number in the first column of a query's first row; nil if the result is empty.
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

    /// The ID of the last inserted row.
    package var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(handle) }

    /// Returns a number that changes if another connection has committed a change.
    package func dataVersion() throws(DatabaseError) -> Int64 { try integer("PRAGMA data_version") ?? 0 }

    /// Adds the SQL function `unhexed(text)`, which decodes pairs of hexadecimal digits and returns NULL for other
    /// text. SQLite has a built-in equivalent since version 3.41.
    package func addUnhexed() throws(DatabaseError) {
        let flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS
        let result = sqlite3_create_function_v2(
            handle, "unhexed", 1, flags, nil,
            { context, _, arguments in
                guard let text = arguments?[0], let start = sqlite3_value_text(text) else {
                    return sqlite3_result_null(context)
                }
                let digits = UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(text)))
                guard let bytes = ASCII.bytes(ofHexadecimal: digits) else { return sqlite3_result_null(context) }
                if bytes.isEmpty { return sqlite3_result_zeroblob(context, 0) }
                bytes.withUnsafeBytes { sqlite3_result_blob64(context, $0.baseAddress, UInt64($0.count), copies) }
            }, nil, nil, nil)
        guard result == SQLITE_OK else { throw error(result) }
    }

    /// Adds an SQL function without arguments that returns a number.
    ///
    /// - Parameter name: The name, which must be ASCII.
    package func addFunction(_ name: String, _ value: @escaping @Sendable () -> Int64) throws(DatabaseError) {
        final class Function {
            let value: @Sendable () -> Int64
            init(_ value: @escaping @Sendable () -> Int64) { self.value = value }
        }
        let result = sqlite3_create_function_v2(
            handle, name, 0, SQLITE_UTF8 | SQLITE_INNOCUOUS, Unmanaged.passRetained(Function(value)).toOpaque(),
            { context, _, _ in
                guard let data = sqlite3_user_data(context) else { return sqlite3_result_null(context) }
                sqlite3_result_int64(context, Unmanaged<Function>.fromOpaque(data).takeUnretainedValue().value())
            }, nil, nil,
            // SQLite also calls this if the function cannot be added.
            { data in
                if let data { Unmanaged<Function>.fromOpaque(data).release() }
            })
        guard result == SQLITE_OK else { throw error(result) }
    }

    // MARK: Transactions

    /// Runs a closure in a transaction that holds the write lock from its start, and commits it. If the closure throws
    /// or the commit fails, the file is unchanged.
    ///
    /// - Throws: The closure's error; `.replaced` if another process has renamed the file; `.busy` if another
    ///   connection holds the lock for longer than the timeout.
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
            // Some errors, for example a full disk, have already rolled the transaction back.
            if sqlite3_get_autocommit(handle) == 0 { try? execute("ROLLBACK") }
            throw error
        }
    }

    private func commit() throws(DatabaseError) {
        // SQLite does not store the system error of a failed commit, which distinguishes a full disk from a broken one.
        errno = 0
        let result = sqlite3_exec(handle, "COMMIT", nil, nil, nil)
        let systemCode = errno
        guard result == SQLITE_OK else {
            throw DatabaseError(handle, result: result, systemCode: systemCode, path: path)
        }
    }
}

/// The schema of a database, as the SQL steps that create each version.
package struct DatabaseSchema: Sendable {
    /// The identifier of databases with this schema, in SQLite's header. Must not be 0.
    package let applicationID: Int32
    /// The SQL that creates each version of the schema from the previous one, starting with an empty database. Append
    /// steps; never change released ones.
    package let steps: [String]

    package init(applicationID: Int32, steps: [String]) {
        self.applicationID = applicationID
        self.steps = steps
    }

    /// The number of the newest version.
    var version: Int64 { Int64(steps.count) }
}

/// A value to bind to a parameter of a statement.
package enum DatabaseValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])

    package static func integer(_ value: Int64?) -> DatabaseValue { value.map { .integer($0) } ?? .null }
    package static func text(_ value: String?) -> DatabaseValue { value.map { .text($0) } ?? .null }
    package static func blob(_ value: [UInt8]?) -> DatabaseValue { value.map { .blob($0) } ?? .null }
}

extension DatabaseValue: ExpressibleByIntegerLiteral, ExpressibleByStringLiteral, ExpressibleByNilLiteral {
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(stringLiteral value: String) { self = .text(value) }
    package init(nilLiteral: ()) { self = .null }
}

/// A prepared statement, valid only inside the closure that received it.
///
/// Parameters and columns are numbered from 0. If a column's type differs from the requested one, SQLite converts it:
/// text that is not a number reads as 0. Validate values that another program may have written.
package final class Statement {
    private let handle: OpaquePointer
    private unowned let database: Database
    /// Whether SQLite ran out of memory while reading a value of a row. Without this flag, the value would be mistaken
    /// for an empty one.
    private(set) var hasLostValue = false

    init(_ handle: OpaquePointer, _ database: Database) {
        self.handle = handle
        self.database = database
    }

    /// Frees the statement. Must be called before the database is closed.
    func finalize() { sqlite3_finalize(handle) }

    /// Resets the statement and unbinds its parameters, so that it can run again.
    package func reset() {
        // Ignore the result, which repeats the error of the last step. That error has already been reported.
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
        hasLostValue = false
    }

    // MARK: Parameters

    /// Binds the values to the parameters, starting with the first.
    package func bind(_ values: [DatabaseValue]) throws(DatabaseError) {
        for (index, value) in values.enumerated() { try bind(value, at: index) }
    }

    /// Binds a value to a parameter. Text and bytes are copied.
    package func bind(_ value: DatabaseValue, at index: Int) throws(DatabaseError) {
        let position = Int32(clamping: index &+ 1)
        let result: Int32
        switch value {
        case .null: result = sqlite3_bind_null(handle, position)
        case .integer(let number): result = sqlite3_bind_int64(handle, position, number)
        case .real(let number): result = sqlite3_bind_double(handle, position, number)
        case .text(var text):
            result = text.withUTF8 { bytes in
                // An empty array may have a null pointer, which would bind NULL.
                guard let start = bytes.baseAddress else { return sqlite3_bind_text(handle, position, "", 0, nil) }
                return start.withMemoryRebound(to: CChar.self, capacity: bytes.count) {
                    sqlite3_bind_text64(handle, position, $0, UInt64(bytes.count), copies, UInt8(SQLITE_UTF8))
                }
            }
        case .blob(let bytes):
            result = bytes.withUnsafeBytes { bytes in
                guard let start = bytes.baseAddress, !bytes.isEmpty else {
                    return sqlite3_bind_zeroblob(handle, position, 0)
                }
                return sqlite3_bind_blob64(handle, position, start, UInt64(bytes.count), copies)
            }
        }
        guard result == SQLITE_OK else { throw database.error(result) }
    }

    // MARK: Rows

    /// Advances to the next row.
    ///
    /// - Returns: False after the last row.
    package func step() throws(DatabaseError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let result: throw database.error(result)
        }
    }

    /// Runs the statement to completion.
    package func run() throws(DatabaseError) { while try step() {} }

    /// The number of columns in a row.
    package var columnCount: Int { Int(sqlite3_column_count(handle)) }

    /// The type of a value.
    package enum Kind: Sendable { case null, integer, real, text, blob }

    /// Returns the type of the value in a column.
    package func kind(_ column: Int) -> Kind {
        switch sqlite3_column_type(handle, Int32(clamping: column)) {
        case SQLITE_INTEGER: .integer
        case SQLITE_FLOAT: .real
        case SQLITE_TEXT: .text
        case SQLITE_BLOB: .blob
        default: .null
        }
    }

    package func isNull(_ column: Int) -> Bool { sqlite3_column_type(handle, Int32(clamping: column)) == SQLITE_NULL }

    package func integer(_ column: Int) -> Int64 { sqlite3_column_int64(handle, Int32(clamping: column)) }

    package func real(_ column: Int) -> Double { sqlite3_column_double(handle, Int32(clamping: column)) }

    /// Returns the text of a column, with replacement characters for invalid UTF-8; empty for NULL.
    package func text(_ column: Int) -> String {
        let column = Int32(clamping: column)
        guard let start = sqlite3_column_text(handle, column) else {
            if sqlite3_column_type(handle, column) != SQLITE_NULL { hasLostValue = true }
            return ""
        }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    /// Returns the bytes of a column; empty for NULL.
    package func blob(_ column: Int) -> [UInt8] { withBlob(column) { Array($0) } }

    /// Calls a closure with the bytes of a column, which are not copied and are valid only inside the closure.
    package func withBlob<Result>(_ column: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        let column = Int32(clamping: column)
        let start = sqlite3_column_blob(handle, column)
        let length = Int(sqlite3_column_bytes(handle, column))
        // SQLite also returns a null address for an empty value.
        if start == nil, length > 0 { hasLostValue = true }
        let count = start == nil ? 0 : length
        return body(UnsafeRawBufferPointer(start: start, count: count))
    }
}

/// The value of SQLITE_TRANSIENT, which Swift does not import. It makes SQLite copy the bytes.
private var copies: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
