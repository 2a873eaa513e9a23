import CSQLite
import ConvoySupport
import Foundation

/// An error that occurs when a database is opened, read or written.
package struct DatabaseError: Error, Hashable, Sendable {
    /// The kind of the error, which determines how the owner of the database reacts.
    package enum Code: Hashable, Sendable {
        /// Another connection holds the lock and did not release it within the busy timeout.
        case busy
        /// The disk, the quota or the maximum file size is exhausted.
        case full
        /// The file is not a database, or its contents are inconsistent. See ``Database/quarantine(_:at:)``.
        case damaged
        /// The file or its directory is read-only.
        case readOnly
        /// The file or its directory cannot be opened, or the file is a link.
        case cannotOpen
        /// The system failed to read or write the file.
        case io
        /// The database belongs to another program. It has not been changed.
        case foreign
        /// Another user owns or can change the database, or one of SQLite's files next to it.
        case unsafe
        /// The database was written by a newer version of this library. It has not been changed.
        case newer
        /// The path no longer refers to the open file, because another process has replaced or removed the file.
        case replaced
        /// Any other error, for example invalid SQL.
        case other
    }

    package let code: Code
    /// The error message of SQLite or of the system.
    package let text: String
    /// The path of the database.
    package let path: String
    /// SQLite's extended result code; 0 if the error does not come from SQLite.
    package let extendedCode: Int32
    /// The file that was damaged or unsafe when it was opened; nil for other errors.
    package let damagedFile: DatabaseFile?

    init(_ code: Code, _ text: String, path: String, extendedCode: Int32 = 0, damagedFile: DatabaseFile? = nil) {
        self.code = code
        self.text = text
        self.path = path
        self.extendedCode = extendedCode
        self.damagedFile = damagedFile
    }
}

extension DatabaseError {
    /// The error that rolls back a transaction whose body has failed for its own reasons.
    package static let rolledBack = DatabaseError(.other, "The transaction was rolled back.", path: "")

    /// Whether a row was rejected because another row has the same value in a unique column.
    package var isUniqueViolation: Bool {
        extendedCode == SQLITE_CONSTRAINT | (8 << 8) || extendedCode == SQLITE_CONSTRAINT | (6 << 8)
    }
}

extension DatabaseError: CustomStringConvertible {
    /// A sentence that contains the reason and the path.
    package var description: String { "The database \(path) cannot be used (\(code)): \(text)" }
}

extension DatabaseError {
    /// Returns the error for a database that its owner has not opened yet.
    package static func notOpen(_ path: String) -> DatabaseError {
        DatabaseError(.cannotOpen, "The database is not open.", path: path)
    }

    /// Returns the error for an unsafe directory that contains only a database and its files.
    ///
    /// - Parameter path: The path of the directory.
    package static func unsafeDirectory(_ path: String, _ flaw: PrivateFileProblem) -> DatabaseError {
        DatabaseError(.unsafe, flaw.reason, path: path)
    }
}

extension DatabaseError {
    /// Creates an error from the last error of a connection.
    ///
    /// - Parameters:
    ///   - result: The result code of the failed call.
    ///   - systemCode: The system error, for calls that do not set one on the connection.
    init(_ connection: OpaquePointer?, result: Int32, systemCode: Int32? = nil, path: String) {
        let extended = connection.map { sqlite3_extended_errcode($0) } ?? result
        // Some calls fail without setting an error on the connection.
        let code = extended & 0xFF == result & 0xFF ? extended : result
        let systemCode = systemCode ?? connection.map { sqlite3_system_errno($0) } ?? 0
        let message = connection.flatMap { sqlite3_errmsg($0) } ?? sqlite3_errstr(result)
        self.init(
            Self.code(code, systemCode: systemCode), message.map { String(cString: $0) } ?? "error \(result)",
            path: path, extendedCode: code)
    }

    /// Returns the kind of an error from SQLite's result code.
    ///
    /// - Parameter systemCode: The connection's last `errno`.
    static func code(_ code: Int32, systemCode: Int32) -> Code {
        switch code {
        case SQLITE_READONLY | (4 << 8): return .replaced  // SQLITE_READONLY_DBMOVED
        case SQLITE_IOERR | (33 << 8): return .damaged  // SQLITE_IOERR_CORRUPTFS
        default: break
        }
        switch code & 0xFF {
        case SQLITE_BUSY, SQLITE_LOCKED: return .busy
        case SQLITE_FULL: return .full
        case SQLITE_CORRUPT, SQLITE_NOTADB: return .damaged
        case SQLITE_READONLY: return .readOnly
        case SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_AUTH: return .cannotOpen
        // SQLite reports only ENOSPC as a full disk. The other codes are equivalent for users.
        case SQLITE_IOERR: return [ENOSPC, EDQUOT, EFBIG].contains(systemCode) ? .full : .io
        default: return .other
        }
    }
}
