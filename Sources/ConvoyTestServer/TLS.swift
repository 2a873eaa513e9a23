import COpenSSL
import Foundation

extension TestServer {
    /// The TLS settings of a server. Nothing is validated: weak keys, expired certificates and chains in the wrong
    /// order are served unchanged.
    public struct TLS: Sendable {
        /// A TLS version.
        public enum Version: CaseIterable, Comparable, Sendable {
            /// TLS 1.0, which clients reject.
            case tls10
            /// TLS 1.1, which clients reject.
            case tls11
            /// TLS 1.2.
            case tls12
            /// TLS 1.3.
            case tls13
        }

        /// Whether the server requests client certificates.
        public enum ClientCertificates: Hashable, Sendable {
            /// The server does not request a certificate.
            case none
            /// The server requests a certificate, and accepts clients without one. A certificate that was not issued by
            /// `clientAuthorities` fails the handshake.
            case requested
            /// A client without a certificate fails the handshake.
            case required
        }

        /// The certificate, its key and its chain.
        public var identity: TestCertificate
        /// The certificates to send after that of `identity`, in this order; nil for those between it and its root.
        public var sentChain: [TestCertificate]?
        /// The certificates, each with its chain, by requested server name (SNI), compared case-insensitively. All
        /// other clients get `identity`.
        public var identitiesByName: [String: TestCertificate] = [:]
        /// Whether the server requests client certificates.
        public var clientCertificates: ClientCertificates = .none
        /// The accepted issuers of client certificates, whose names are sent to clients. If empty, every certificate is
        /// accepted.
        public var clientAuthorities: [TestCertificate] = []
        /// The minimum TLS version that the server accepts.
        public var minimumVersion: Version = .tls12
        /// The maximum TLS version that the server accepts.
        public var maximumVersion: Version = .tls13
        /// The ciphers up to TLS 1.2, in OpenSSL's notation.
        public var cipherList = "DEFAULT"
        /// The ciphers of TLS 1.3, in OpenSSL's notation; nil for OpenSSL's choice.
        public var cipherSuites: String?
        /// The supported application protocols (ALPN), in order of preference; nil disables ALPN. A client that offers
        /// only other protocols is rejected; a client without ALPN is accepted.
        public var alpnProtocols: [String]? = ["http/1.1"]
        /// The OCSP response for clients that request one, right or wrong; nil for none. See
        /// `TestCertificate.ocspResponse(status:thisUpdate:nextUpdate:signedBy:)`.
        public var ocspResponse: Data?
        /// Whether clients can resume a session, as most servers allow.
        public var resumesSessions = true
        /// Whether to close connections without a close_notify, as broken servers and attackers do.
        public var omitsCloseNotify = false

        /// Creates settings for TLS 1.2 and 1.3 with this certificate.
        public init(_ identity: TestCertificate) {
            self.identity = identity
        }
    }
}

/// The TLS settings as an OpenSSL context: created on any thread, immutable, then used on the server's thread.
final class TLSContext: @unchecked Sendable {
    let object: OpaquePointer
    let omitsCloseNotify: Bool
    private let identitiesByName: [String: ServedIdentity]
    private let alpnProtocols: [[UInt8]]
    private let ocspResponse: [UInt8]

    /// Creates a context with the given settings.
    ///
    /// - Throws: `TestServerError.unusableTLS`.
    init(_ tls: TestServer.TLS) throws(TestServerError) {
        alpnProtocols = (tls.alpnProtocols ?? []).map { Array($0.utf8) }
        ocspResponse = tls.ocspResponse.map { Array($0) } ?? []
        omitsCloseNotify = tls.omitsCloseNotify
        let identity: ServedIdentity
        do throws(TestCertificateError) {
            identity = try ServedIdentity(tls.identity, sending: tls.sentChain ?? Array(tls.identity.chain.dropFirst()))
            var named: [String: ServedIdentity] = [:]
            for (name, other) in tls.identitiesByName {
                named[name.lowercased()] = try ServedIdentity(other, sending: Array(other.chain.dropFirst()))
            }
            identitiesByName = named
        } catch {
            throw .unusableTLS(error.description)
        }
        guard let object = SSL_CTX_new(TLS_server_method()) else { throw Self.failure("SSL_CTX_new") }
        self.object = object
        convoy_maker_prepare_context(object, tls.resumesSessions ? 1 : 0)
        try setVersionsAndCiphers(tls)
        guard SSL_CTX_use_cert_and_key(object, identity.certificate, identity.key, identity.rest, 1) == 1 else {
            throw Self.failure("SSL_CTX_use_cert_and_key")
        }
        try setClientCertificates(tls)
        // Without a session ID context, OpenSSL does not resume sessions with client certificates.
        let name = Array("convoy".utf8)
        SSL_CTX_set_session_id_context(object, name, UInt32(name.count))
        setCallbacks()
    }

    deinit { SSL_CTX_free(object) }

    private func setVersionsAndCiphers(_ tls: TestServer.TLS) throws(TestServerError) {
        guard tls.minimumVersion <= tls.maximumVersion else {
            throw .unusableTLS("the minimum version exceeds the maximum version")
        }
        guard convoy_ssl_context_set_minimum(object, tls.minimumVersion.number) == 1,
            convoy_ssl_context_set_maximum(object, tls.maximumVersion.number) == 1
        else { throw Self.failure("SSL_CTX_set_min_proto_version") }
        // The security level must be part of the list; otherwise OpenSSL removes weak ciphers from it.
        guard SSL_CTX_set_cipher_list(object, "\(tls.cipherList):@SECLEVEL=0") == 1 else {
            throw Self.failure("SSL_CTX_set_cipher_list")
        }
        if let suites = tls.cipherSuites, SSL_CTX_set_ciphersuites(object, suites) != 1 {
            throw Self.failure("SSL_CTX_set_ciphersuites")
        }
        guard alpnProtocols.allSatisfy({ (1...255).contains($0.count) }) else {
            throw .unusableTLS("the name of an application protocol must have 1 to 255 bytes")
        }
    }

    private func setClientCertificates(_ tls: TestServer.TLS) throws(TestServerError) {
        guard tls.clientCertificates != .none else { return }
        convoy_maker_ask_client(
            object, tls.clientCertificates == .required ? 1 : 0, tls.clientAuthorities.isEmpty ? 1 : 0)
        let store = SSL_CTX_get_cert_store(object)
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        for authority in tls.clientAuthorities {
            do throws(TestCertificateError) {
                try authority.withObject { certificate throws(TestCertificateError) in
                    guard X509_STORE_add_cert(store, certificate) == 1 else {
                        throw OpenSSLCalls.failure("X509_STORE_add_cert")
                    }
                    guard SSL_CTX_add_client_CA(object, certificate) == 1 else {
                        throw OpenSSLCalls.failure("SSL_CTX_add_client_CA")
                    }
                }
            } catch {
                throw .unusableTLS(error.description)
            }
        }
    }

    /// Sets the callbacks. They take an unretained pointer to this object, which every `TLSSession` keeps alive.
    private func setCallbacks() {
        let this = Unmanaged.passUnretained(self).toOpaque()
        if !identitiesByName.isEmpty {
            convoy_maker_set_name_callback(
                object, { ssl, _, this in this.map { TLSContext.at($0).useIdentity(ssl) } ?? SSL_TLSEXT_ERR_OK }, this)
        }
        if !alpnProtocols.isEmpty {
            SSL_CTX_set_alpn_select_cb(
                object,
                { _, name, count, offered, size, this in
                    guard let name, let count, let offered, let this else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                    let offer = UnsafeBufferPointer(start: offered, count: Int(size))
                    guard let range = TLSContext.at(this).choice(from: offer) else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                    name.pointee = offered + range.lowerBound
                    count.pointee = UInt8(range.count)
                    return SSL_TLSEXT_ERR_OK
                }, this)
        }
        if !ocspResponse.isEmpty {
            convoy_maker_set_status_callback(
                object,
                { ssl, this in
                    guard let this else { return SSL_TLSEXT_ERR_NOACK }
                    let bytes = TLSContext.at(this).ocspResponse
                    return convoy_maker_staple(ssl, bytes, bytes.count) == 1 ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK
                }, this)
        }
    }

    private static func at(_ pointer: UnsafeMutableRawPointer) -> TLSContext {
        Unmanaged<TLSContext>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Uses the certificate for the server name that the client requests.
    private func useIdentity(_ ssl: OpaquePointer?) -> Int32 {
        guard let name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name),
            let identity = identitiesByName[String(cString: name).lowercased()]
        else { return SSL_TLSEXT_ERR_OK }
        // Remove the context's certificates, because one with a different kind of key would otherwise remain.
        SSL_certs_clear(ssl)
        let isUsed = SSL_use_cert_and_key(ssl, identity.certificate, identity.key, identity.rest, 1) == 1
        return isUsed ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL
    }

    /// Returns the range of the preferred protocol in a client's list of length-prefixed names; nil if none is
    /// supported.
    private func choice(from offer: UnsafeBufferPointer<UInt8>) -> Range<Int>? {
        var names: [Range<Int>] = []
        var position = 0
        while position < offer.count {
            let start = position + 1
            position = start + Int(offer[position])
            guard position <= offer.count else { return nil }
            names.append(start..<position)
        }
        for name in alpnProtocols {
            if let match = names.first(where: { name.elementsEqual(offer[$0]) }) { return match }
        }
        return nil
    }

    private static func failure(_ call: String) -> TestServerError {
        .unusableTLS(OpenSSLCalls.failure(call).description)
    }
}

extension TestServer.TLS.Version {
    /// OpenSSL's number for the version.
    fileprivate var number: Int32 {
        switch self {
        case .tls10: TLS1_VERSION
        case .tls11: TLS1_1_VERSION
        case .tls12: TLS1_2_VERSION
        case .tls13: TLS1_3_VERSION
        }
    }
}

/// A certificate, its key and the rest of its chain as immutable OpenSSL objects.
final class ServedIdentity: @unchecked Sendable {
    let certificate: OpaquePointer
    let key: OpaquePointer
    let rest: OpaquePointer

    init(_ identity: TestCertificate, sending others: [TestCertificate]) throws(TestCertificateError) {
        guard let rest = convoy_x509_stack_new() else { throw OpenSSLCalls.failure("sk_X509_new_null") }
        do throws(TestCertificateError) {
            for other in others {
                try other.withObject { object throws(TestCertificateError) in
                    guard convoy_x509_stack_append(rest, object) == 1 else {
                        throw OpenSSLCalls.failure("sk_X509_push")
                    }
                }
            }
            (certificate, key) = try identity.withObject { certificate throws(TestCertificateError) in
                try identity.key.withObject { key throws(TestCertificateError) in
                    X509_up_ref(certificate)
                    EVP_PKEY_up_ref(key)
                    return (certificate, key)
                }
            }
        } catch {
            convoy_x509_stack_free(rest)
            throw error
        }
        self.rest = rest
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
        convoy_x509_stack_free(rest)
    }
}
