import Foundation

/// The certificates that a chain may end at.
public enum CertificateAuthorities: Sendable, Hashable, Codable {
    /// What the system trusts: the file that the environment variable `SSL_CERT_FILE` names, or else the system's
    /// bundle, as for the `curl` tool.
    case system
    /// The certificates of a file, in PEM or DER, and no others.
    case file(URL)
    /// The certificates of a folder's files that are named `.cer`, `.crt`, `.der` or `.pem`, and no others.
    case directory(URL)
    /// These, and no others.
    case certificates([Certificate])
    /// What the system trusts, and these.
    case systemAnd([Certificate])
}
