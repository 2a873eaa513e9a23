/// The error when a file cannot be written.
package struct FileWritingError: Error, Equatable {
    package enum Reason: Equatable, Sendable {
        /// The file exists, and must not be replaced.
        case exists
        /// The partial file exists, and must not be replaced.
        case partialExists
        /// The partial file is used by another writer, or is not a regular file of this user's.
        case partialIsShared
        case cannotCreate
        case cannotWrite
        /// What was written cannot be read.
        case cannotRead
    }

    package let reason: Reason
    /// The path of the file in question: the final or the partial one.
    package let path: String
    /// The system's error.
    package let cause: SystemError

    /// - Parameter code: the `errno`; a name that is taken is its own reason.
    package init(_ reason: Reason, _ path: String, _ code: Int32) {
        self.reason = reason
        self.path = path
        cause = SystemError(code: code)
    }
}
