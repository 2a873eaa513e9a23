import Foundation

/// Settings of TLS that cannot be used. The underlying error of a `URLError.secureConnectionFailed`.
public enum TLSConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// OpenSSL has no cipher suite of this name, or forbids it.
    case unknownCipherSuite(String)
    /// No version of TLS is left: the minimum is above the maximum, or the cipher suites are of other versions.
    case noVersion
    /// The certificates of authorities cannot be read.
    case authorities(CertificateError)
    /// The revocation lists cannot be read.
    case revocationLists(RevocationListError)
    /// The client's certificate or key cannot be read.
    case identity(ClientIdentityError)
    /// OpenSSL has no memory, or refuses a setting, and what it says.
    case refused(String)

    public var description: String {
        switch self {
        case .unknownCipherSuite(let name): "OpenSSL has no cipher suite \(name.debugDescription)."
        case .noVersion: "The minimum, the maximum and the cipher suites leave no version of TLS."
        case .authorities(let error): "The certificate authorities cannot be used: \(error)"
        case .revocationLists(let error): "The revocation lists cannot be used: \(error)"
        case .identity(let error): "The client's certificate cannot be used: \(error)"
        case .refused(let text): "OpenSSL refuses the settings of TLS: \(text)"
        }
    }
}

extension TLSConfigurationError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
