import Foundation

/// Why a file of checksums cannot be used.
public enum ChecksumFileError: Error, Sendable, Hashable {
    /// It has more bytes than this.
    case tooLarge(limit: Int)
    /// No line has a checksum of a supported algorithm, or there are only digests without names, and more than one.
    case noChecksums
}

extension ChecksumFileError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .tooLarge(let limit): "The file of checksums is larger than \(limit >> 20) MiB."
        case .noChecksums:
            "The file has no line with a checksum and a file name, such as those that sha256sum prints."
        }
    }
}

extension ChecksumFileError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
