import CSQLite
import Foundation

extension DatabaseError {
    /// The last error of a connection.
    ///
    /// - Parameters:
    ///   - result: the result code of the call that failed.
    ///   - systemCode: the system's error, for calls after which the connection has none.
    init(_ connection: OpaquePointer?, result: Int32, systemCode: Int32? = nil, path: String) {
        let extended = connection.map { sqlite3_extended_errcode($0) } ?? result
        // Some calls fail without leaving a code at the connection.
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
