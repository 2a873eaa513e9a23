import ConvoySupport

/// Why a database could not be opened, read or written.
package struct DatabaseError: Error, Hashable, Sendable {
    /// What kind of failure it is, which decides what the owner of the database does.
    package enum Code: Hashable, Sendable {
        /// Another connection holds the lock, and did not release it within the busy timeout.
        case busy
        /// The disk, the quota or the permitted size of a file is exhausted.
        case full
        /// The file is not a database, or its contents contradict each other. See ``Database/setAside(_:at:)``.
        case damaged
        /// The file or its directory must not be written.
        case readOnly
        /// The file or its directory cannot be opened, or the file is a link.
        case cannotOpen
        /// The system failed to read or write it.
        case io
        /// It is a sound database, but of another program. It was left as it was.
        case foreign
        /// It, or a file that SQLite keeps beside it, could have been prepared by another user, or can be changed by one.
        case unsafe
        /// It was written by a newer version of this library. It was left as it was.
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
    /// Which file was found damaged or unsafe while it was being opened; nil in all other cases.
    package let damagedFile: DatabaseFile?

    init(_ code: Code, _ text: String, path: String, extendedCode: Int32 = 0, damagedFile: DatabaseFile? = nil) {
        self.code = code
        self.text = text
        self.path = path
        self.extendedCode = extendedCode
        self.damagedFile = damagedFile
    }
}

extension DatabaseError: CustomStringConvertible {
    /// The reason and the path in a sentence.
    package var description: String { "The database \(path) cannot be used (\(code)): \(text)" }
}

extension DatabaseError {
    /// For owners that open their database later.
    package static func notOpen(_ path: String) -> DatabaseError {
        DatabaseError(.cannotOpen, "The database is not open.", path: path)
    }

    /// For owners whose databases are in a directory of their own.
    ///
    /// - Parameter path: of the directory.
    package static func unsafeDirectory(_ path: String, _ flaw: FileFlaw) -> DatabaseError {
        DatabaseError(.unsafe, flaw.reason, path: path)
    }
}
