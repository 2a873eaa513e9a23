import Foundation

/// Why certificates could not be read.
public enum CertificateError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The bytes are not a certificate in DER.
    case notACertificate
    /// There is no certificate where some were expected; the text names the file or folder, or is empty for bytes in
    /// memory.
    case noCertificate(in: String)
    /// A certificate of a file, counted from 1, cannot be read.
    case damaged(file: String, number: Int)
    /// A file or folder cannot be read, and why.
    case unreadable(file: String, reason: String)

    public var description: String {
        switch self {
        case .notACertificate: "The bytes are not a certificate in DER."
        case .noCertificate(in: ""): "There is no certificate."
        case .noCertificate(let file): "There is no certificate in \(file)."
        case .damaged("", let number): "Certificate \(number) is damaged."
        case .damaged(let file, let number): "Certificate \(number) of \(file) is damaged."
        case .unreadable(let file, let reason): "\(file) cannot be read: \(reason)"
        }
    }
}

extension CertificateError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
