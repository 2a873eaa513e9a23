import ConvoySecurity
import Foundation

/// Why text is not a checksum.
public enum ChecksumError: Error, Sendable, Hashable {
    /// The name is none of an algorithm that is supported (MD5, SHA-1, SHA-256, SHA-512).
    case unknownAlgorithm(String)
    /// There is something else than hexadecimal digits.
    case notHexadecimal(String)
    /// A digest of this algorithm has another number of hexadecimal digits.
    case wrongLength(ChecksumAlgorithm, digits: Int)
    /// There is no name, and no supported algorithm has digests with this number of hexadecimal digits.
    case unknownLength(digits: Int)
}

extension ChecksumError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .unknownAlgorithm(let name):
            "\(Self.shown(name)) is none of the supported algorithms: \(Self.known)."
        case .notHexadecimal(let text):
            "\(Self.shown(text)) is not a digest in hexadecimal digits."
        case .wrongLength(let algorithm, let digits):
            "A \(algorithm) digest has \(algorithm.digestLength * 2) hexadecimal digits, not \(digits)."
        case .unknownLength(let digits):
            "No supported algorithm has digests of \(digits) hexadecimal digits. Supported are: \(Self.known)."
        }
    }

    private static let known = ChecksumAlgorithm.allCases.map(\.description).joined(separator: ", ")

    /// The text in quotes, cut if it is long.
    private static func shown(_ text: String) -> String {
        text.utf8.count > 200 ? "\(String(text.prefix(100)).debugDescription)…" : text.debugDescription
    }
}

extension ChecksumError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
