import COpenSSL
import Foundation

/// The settings of TLS as OpenSSL's object, which is made on any thread, does not change, and is then used on the
/// server's.
final class TLSContext: @unchecked Sendable {
    let object: OpaquePointer
    let omitsCloseNotify: Bool
    private let identitiesByName: [String: ServedIdentity]
    private let alpnProtocols: [[UInt8]]
    private let ocspResponse: [UInt8]

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
        // Without one OpenSSL resumes no session of a client that has presented a certificate.
        let name = Array("convoy".utf8)
        SSL_CTX_set_session_id_context(object, name, UInt32(name.count))
        setCallbacks()
    }

    deinit { SSL_CTX_free(object) }

    private func setVersionsAndCiphers(_ tls: TestServer.TLS) throws(TestServerError) {
        guard tls.minimumVersion <= tls.maximumVersion else {
            throw .unusableTLS("the minimum version is above the maximum version")
        }
        guard convoy_ssl_context_set_minimum(object, tls.minimumVersion.number) == 1,
            convoy_ssl_context_set_maximum(object, tls.maximumVersion.number) == 1
        else { throw Self.failure("SSL_CTX_set_min_proto_version") }
        // OpenSSL drops the weak ciphers from a list by the level that is in the list itself.
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

    /// OpenSSL calls back with a pointer to this object, which every `TLSSession` keeps for as long as it lives.
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

    /// Uses the certificate for the name that the client asks for.
    private func useIdentity(_ ssl: OpaquePointer?) -> Int32 {
        guard let name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name),
            let identity = identitiesByName[String(cString: name).lowercased()]
        else { return SSL_TLSEXT_ERR_OK }
        // A certificate with another kind of key would not replace that of the context.
        SSL_certs_clear(ssl)
        let isUsed = SSL_use_cert_and_key(ssl, identity.certificate, identity.key, identity.rest, 1) == 1
        return isUsed ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL
    }

    /// Where the best protocol is in a client's list, in which each name is preceded by its length; nil if none is.
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
    /// OpenSSL's number.
    fileprivate var number: Int32 {
        switch self {
        case .tls10: TLS1_VERSION
        case .tls11: TLS1_1_VERSION
        case .tls12: TLS1_2_VERSION
        case .tls13: TLS1_3_VERSION
        }
    }
}
