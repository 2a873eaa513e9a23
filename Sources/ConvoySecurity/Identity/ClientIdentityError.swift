import Foundation

/// Why a client's certificate or key cannot be used. Paths are empty for bytes in memory.
public enum ClientIdentityError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The certificates cannot be read.
    case certificate(CertificateError)
    /// The file of the key, or the PKCS#12 file, cannot be read, and why.
    case unreadable(file: String, reason: String)
    /// There is no private key.
    case noKey(file: String)
    /// The key or file is encrypted, and the passphrase is wrong or missing.
    case wrongPassphrase(file: String)
    /// The closure that should supply the passphrase threw this.
    case noPassphrase(reason: String)
    /// The key is damaged, or of a kind that OpenSSL does not know.
    case damagedKey(file: String)
    /// The file is not PKCS#12, is damaged, or uses a cipher that OpenSSL does not have, such as RC2 of old.
    case notPKCS12(file: String)
    /// The key is not that of the certificate.
    case keyOfAnotherCertificate

    public var description: String {
        switch self {
        case .certificate(let error): "\(error)"
        case .unreadable(let file, let reason): "\(file) cannot be read: \(reason)"
        case .noKey(let file): "There is no private key\(Self.place(file))."
        case .wrongPassphrase(let file): "The key\(Self.place(file)) is encrypted, and the passphrase is wrong or missing."
        case .noPassphrase(let reason): "There is no passphrase for the key: \(reason)"
        case .damagedKey(let file): "The private key\(Self.place(file)) cannot be read."
        case .notPKCS12(let file):
            "The bytes\(Self.place(file)) are not PKCS#12, are damaged, or use a cipher that OpenSSL does not have."
        case .keyOfAnotherCertificate: "The private key is not that of the certificate."
        }
    }

    private static func place(_ file: String) -> String { file.isEmpty ? "" : " in \(file)" }
}

extension ClientIdentityError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
