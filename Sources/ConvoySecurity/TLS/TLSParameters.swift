import COpenSSL
import Foundation

/// Applies versions and cipher suites to an `SSL_CTX`.
enum TLSParameters {
    /// Throws if OpenSSL refuses the settings.
    static func check(_ settings: TLSSettings) throws(TLSConfigurationError) {
        guard settings.versions != nil else { throw .noVersion }
        guard !settings.cipherSuites.isEmpty else { return }
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw .refused(lastError) }
        defer { SSL_CTX_free(context) }
        // One by one, as OpenSSL ignores unknown suites in a list.
        for name in settings.oldCipherSuites where !isName(name) || SSL_CTX_set_cipher_list(context, name) != 1 {
            ERR_clear_error()
            throw .unknownCipherSuite(name)
        }
        for name in settings.newCipherSuites where !isName(name) || SSL_CTX_set_ciphersuites(context, name) != 1 {
            ERR_clear_error()
            throw .unknownCipherSuite(name)
        }
    }

    /// Throws if OpenSSL refuses a certificate and its key. In the handshake the reason would be lost.
    static func check(_ identity: LoadedIdentity) throws(TLSConfigurationError) {
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw .refused(lastError) }
        defer { SSL_CTX_free(context) }
        ERR_clear_error()
        guard identity.use(in: context) else { throw .refused(lastError) }
    }

    /// Only plain names are allowed, as OpenSSL's cipher strings can also lower its security level, or name groups of
    /// suites. Groups such as `aNULL` have no hyphen.
    private static func isName(_ text: String) -> Bool {
        text.utf8.contains { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
                    UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// Applies checked settings. False if OpenSSL has no memory.
    static func apply(_ settings: TLSSettings, to context: OpaquePointer) -> Bool {
        guard let versions = settings.versions,
            convoy_ssl_context_set_minimum(context, Int32(versions.lowerBound.rawValue)) == 1,
            convoy_ssl_context_set_maximum(context, Int32(versions.upperBound.rawValue)) == 1
        else { return false }
        let (old, new) = (settings.oldCipherSuites, settings.newCipherSuites)
        if !old.isEmpty, SSL_CTX_set_cipher_list(context, old.joined(separator: ":")) != 1 { return false }
        if !new.isEmpty, SSL_CTX_set_ciphersuites(context, new.joined(separator: ":")) != 1 { return false }
        return true
    }

    /// OpenSSL's text for its last error on this thread.
    static var lastError: String {
        defer { ERR_clear_error() }
        guard let text = ERR_reason_error_string(ERR_get_error()) else { return "no reason given" }
        return String(cString: text)
    }
}

/// Why settings of TLS cannot be used. The underlying error of a `URLError.secureConnectionFailed`.
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
    /// OpenSSL refuses a setting, or has no memory; with its error text.
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

/// The version and the cipher suite of a TLS connection.
package struct NegotiatedTLS: Sendable, Hashable {
    /// The version in OpenSSL's spelling, such as `TLSv1.3`.
    package let version: String
    /// The registered name of the cipher suite, such as `TLS_AES_256_GCM_SHA384`; nil if it has none.
    package let cipherSuite: String?

    /// - Parameter connection: an `SSL` whose handshake is done; nil is returned before that.
    package init?(_ connection: OpaquePointer) {
        guard let cipher = SSL_get_current_cipher(connection), let version = SSL_get_version(connection) else { return nil }
        self.version = String(cString: version)
        cipherSuite = SSL_CIPHER_standard_name(cipher).map { String(cString: $0) }
    }
}
