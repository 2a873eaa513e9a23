import CSQLite

/// A prepared statement, valid only inside the closure that received it.
///
/// Parameters and columns are numbered from 0. SQLite converts a column of another type than the requested one: a text
/// that is not a number reads as 0. Check values that another program may have written.
package final class Statement {
    private let handle: OpaquePointer
    private unowned let database: Database

    init(_ handle: OpaquePointer, _ database: Database) {
        self.handle = handle
        self.database = database
    }

    /// Frees the statement. Call it before its database is closed.
    func finalize() { sqlite3_finalize(handle) }

    /// Resets the statement and unbinds its parameters, so that it can run again.
    package func reset() {
        // It repeats the error of the last step, which was reported already.
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    // MARK: Parameters

    /// Binds the values to the parameters, from the first one.
    package func bind(_ values: [DatabaseValue]) throws(DatabaseError) {
        for (index, value) in values.enumerated() { try bind(value, at: index) }
    }

    /// Binds a value to a parameter. Texts and bytes are copied.
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
    /// - Returns: False if there is none.
    package func step() throws(DatabaseError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let result: throw database.error(result)
        }
    }

    /// Runs the statement to its end.
    package func run() throws(DatabaseError) { while try step() {} }

    package func isNull(_ column: Int) -> Bool { sqlite3_column_type(handle, Int32(clamping: column)) == SQLITE_NULL }

    package func integer(_ column: Int) -> Int64 { sqlite3_column_int64(handle, Int32(clamping: column)) }

    package func real(_ column: Int) -> Double { sqlite3_column_double(handle, Int32(clamping: column)) }

    /// The text of a column, with replacement characters for what is not UTF-8; empty for NULL.
    package func text(_ column: Int) -> String {
        let column = Int32(clamping: column)
        guard let start = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    /// The bytes of a column; none for NULL.
    package func blob(_ column: Int) -> [UInt8] { withBlob(column) { Array($0) } }

    /// The bytes of a column without a copy, valid inside the closure.
    package func withBlob<Result>(_ column: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        let column = Int32(clamping: column)
        let start = sqlite3_column_blob(handle, column)
        let count = start == nil ? 0 : Int(sqlite3_column_bytes(handle, column))
        return body(UnsafeRawBufferPointer(start: start, count: count))
    }
}

/// SQLITE_TRANSIENT, which Swift does not import: SQLite makes its own copy.
private var copies: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
