import COpenSSL

/// What both sides of a connection over TLS have agreed on.
package struct NegotiatedTLS: Sendable, Hashable {
    /// OpenSSL's name of the version, such as `TLSv1.3`.
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
