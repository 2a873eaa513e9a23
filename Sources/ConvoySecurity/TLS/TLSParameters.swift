import COpenSSL
import Foundation

/// Sets versions and cipher suites of an `SSL_CTX`.
enum TLSParameters {
    /// Whether OpenSSL takes the settings.
    static func check(_ settings: TLSSettings) throws(TLSConfigurationError) {
        guard settings.versions != nil else { throw .noVersion }
        guard !settings.cipherSuites.isEmpty else { return }
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw .refused(lastError) }
        defer { SSL_CTX_free(context) }
        // One by one: of a list, OpenSSL takes those that it knows.
        for name in settings.oldCipherSuites where !isName(name) || SSL_CTX_set_cipher_list(context, name) != 1 {
            ERR_clear_error()
            throw .unknownCipherSuite(name)
        }
        for name in settings.newCipherSuites where !isName(name) || SSL_CTX_set_ciphersuites(context, name) != 1 {
            ERR_clear_error()
            throw .unknownCipherSuite(name)
        }
    }

    /// Whether OpenSSL takes a certificate and its key. Later, in the handshake, it could not be told why not.
    static func check(_ identity: LoadedIdentity) throws(TLSConfigurationError) {
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw .refused(lastError) }
        defer { SSL_CTX_free(context) }
        ERR_clear_error()
        guard identity.use(in: context) else { throw .refused(lastError) }
    }

    /// OpenSSL's lists have a language of their own, with which its level of security can be lowered. And its groups of
    /// suites, such as `aNULL`, have no hyphen.
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

    /// Sets what was checked. False if OpenSSL has no memory.
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

    /// What OpenSSL says about its last failure on this thread.
    static var lastError: String {
        defer { ERR_clear_error() }
        guard let text = ERR_reason_error_string(ERR_get_error()) else { return "no reason given" }
        return String(cString: text)
    }
}
