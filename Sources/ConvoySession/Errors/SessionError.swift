import Foundation

/// Why a session does not make a request.
public enum SessionError: Error, Equatable, Sendable {
    /// The session was invalidated: it makes no task any more.
    case invalidated
    /// The directory for files that are downloaded belongs to somebody else, others can write to it, or it is none.
    case unsafeDirectory(URL)
    /// The directory for files that are downloaded cannot be made: the system's number of the error.
    case unusableDirectory(URL, code: Int32)
}

extension SessionError: LocalizedError, CustomStringConvertible {
    /// What is wrong, in a sentence.
    public var errorDescription: String? { description }

    /// What is wrong, in a sentence.
    public var description: String {
        switch self {
        case .invalidated: "The session was invalidated, and makes no requests any more."
        case .unsafeDirectory(let url):
            "The directory \(url.path) for downloads is not this user's alone."
        case .unusableDirectory(let url, let code):
            "The directory \(url.path) for downloads cannot be made: \(String(cString: strerror(code)))."
        }
    }
}
