/// Why a file cannot be written.
package struct FileWritingError: Error, Equatable {
    package enum Reason: Equatable, Sendable {
        /// The file has been there, or is there meanwhile, and shall not be replaced.
        case exists
        /// The partial file is there, and shall not be replaced.
        case partialExists
        /// The partial file is written by somebody else too, or is no plain file.
        case partialIsShared
        case cannotCreate
        case cannotWrite
    }

    package let reason: Reason
    /// The file that it is about: the whole or the partial one.
    package let path: String
    /// What the system said.
    package let cause: SystemError

    init(_ reason: Reason, _ path: String, _ code: Int32) {
        self.reason = reason
        self.path = path
        cause = SystemError(code: code)
    }
}
