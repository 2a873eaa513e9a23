import Foundation

/// Why resume data cannot be used.
public enum ResumeDataError: Error, Equatable, Sendable {
    /// It is none, or was changed: why, as a sentence.
    case malformed(String)
    /// A later version of this library has written it.
    case unsupportedVersion(Int)
    /// It is about another URL than the request, or than its own journal.
    case otherURL
}

extension ResumeDataError: LocalizedError, CustomStringConvertible {
    /// What is wrong, in a sentence.
    public var errorDescription: String? { description }

    /// What is wrong, in a sentence.
    public var description: String {
        switch self {
        case .malformed(let reason): "The resume data cannot be read. \(reason)"
        case .unsupportedVersion(let version):
            "The resume data has version \(version), and this library knows \(ResumeData.currentVersion)."
        case .otherURL: "The resume data is that of another URL."
        }
    }
}
