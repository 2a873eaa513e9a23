import Foundation

/// Why a .netrc file cannot be used.
public enum NetrcError: Error, Hashable, Sendable, CustomStringConvertible {
    /// There is no such file.
    case notFound(file: String)
    /// The file cannot be read, and why.
    case unreadable(file: String, reason: String)
    /// Other users can read the file, and with it the passwords: `chmod 600` it, or allow it.
    case readableByOthers(file: String)
    /// The file is larger than 1 MiB.
    case tooLarge(file: String)
    /// The file is not a text in UTF-8.
    case notText(file: String)
    /// A quoted word in this line, counted from 1, does not end in it.
    case unterminatedQuote(line: Int)

    public var description: String {
        switch self {
        case .notFound(let file): "There is no file \(file)."
        case .unreadable(let file, let reason): "\(file) cannot be read: \(reason)"
        case .readableByOthers(let file): "\(file) has passwords in it, and other users can read it."
        case .tooLarge(""): "The text is larger than 1 MiB."
        case .tooLarge(let file): "\(file) is larger than 1 MiB."
        case .notText(let file): "\(file) is not a text in UTF-8."
        case .unterminatedQuote(let line): "A quoted word in line \(line) of the netrc file does not end there."
        }
    }
}

extension NetrcError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
