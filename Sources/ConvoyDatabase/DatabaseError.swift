import CSQLite
import ConvoySupport
import Foundation

/// Why a database could not be opened, read or written.
package struct DatabaseError: Error, Hashable, Sendable {
    /// The kind of failure, by which the owner of the database decides what to do.
    package enum Code: Hashable, Sendable {
        /// Another connection holds the lock, and did not release it within the busy timeout.
        case busy
        /// The disk, the quota or the permitted size of a file is exhausted.
        case full
        /// The file is not a database, or its contents contradict each other. See ``Database/quarantine(_:at:)``.
        case damaged
        /// The file or its directory must not be written.
        case readOnly
        /// The file or its directory cannot be opened, or the file is a link.
        case cannotOpen
        /// The system failed to read or write it.
        case io
        /// The database belongs to another program. It was not changed.
        case foreign
        /// Another user owns or can change the database, or a file of SQLite beside it.
        case unsafe
        /// A newer version of this library has written it. It was not changed.
        case newer
        /// The file at the path is no longer the one that is open: another process has replaced or removed it.
        case replaced
        /// Anything else, such as invalid SQL.
        case other
    }

    package let code: Code
    /// SQLite's or the system's message.
    package let text: String
    /// The path of the database.
    package let path: String
    /// SQLite's extended result code; 0 if the error is not SQLite's.
    package let extendedCode: Int32
    /// The file that was found damaged or unsafe on opening; nil in all other cases.
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
    /// Ends a transaction whose body has failed for a reason of its own.
    package static let rolledBack = DatabaseError(.other, "The transaction was rolled back.", path: "")

    /// Whether a row was refused because another one has the same value in a unique column.
    package var isUniqueViolation: Bool {
        extendedCode == SQLITE_CONSTRAINT | (8 << 8) || extendedCode == SQLITE_CONSTRAINT | (6 << 8)
    }
}

extension DatabaseError: CustomStringConvertible {
    /// The reason and the path in a sentence.
    package var description: String { "The database \(path) cannot be used (\(code)): \(text)" }
}

extension DatabaseError {
    /// The error of a database that its owner has not opened yet.
    package static func notOpen(_ path: String) -> DatabaseError {
        DatabaseError(.cannotOpen, "The database is not open.", path: path)
    }

    /// The error of an unsafe directory that contains only a database and its files.
    ///
    /// - Parameter path: The path of the directory.
    package static func unsafeDirectory(_ path: String, _ flaw: FileFlaw) -> DatabaseError {
        DatabaseError(.unsafe, flaw.reason, path: path)
    }
}

extension DatabaseError {
    /// The last error of a connection.
    ///
    /// - Parameters:
    ///   - result: the result code of the call that failed.
    ///   - systemCode: the system's error, for calls after which the connection has none.
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

    /// - Parameter systemCode: the connection's last `errno`.
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
        // SQLite reports only ENOSPC as a full disk, but for its user these are the same.
        case SQLITE_IOERR: return [ENOSPC, EDQUOT, EFBIG].contains(systemCode) ? .full : .io
        default: return .other
        }
    }
}
