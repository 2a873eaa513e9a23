import COpenSSL
import ConvoySupport
import Foundation

/// A TLS handshake. It decides whether to trust the server before any part of the request is sent.
///
/// It is owned by the connection's OpenSSL context, and used only on the network thread.
package final class TLSHandshake: @unchecked Sendable {
    private let context: TLSContext
    private let material: TLSContext.Material
    package let isWithProxy: Bool
    /// The host of the URL; nil for a proxy, whose name is taken from the connection.
    private let host: String?
    /// The decision about the server; nil before the server has presented its certificates.
    package private(set) var decision: TrustDecision?
    /// The certificates presented by the server, if it is not trusted.
    package private(set) var trust: ServerTrust?
    /// The last error alert received (RFC 8446, section 6).
    package private(set) var alert: UInt8?
    /// Whether the other side has closed the connection with `close_notify`, which rules out truncation by a third
    /// party.
    package private(set) var hasEnded = false
    /// Whether the server requested a client certificate and none was configured.
    package private(set) var lacksIdentity = false
    /// Whether the server requested the client certificate and received it.
    package private(set) var hasPresentedIdentity = false

    /// - Parameters:
    ///   - context: The context, which must be ready. Otherwise the initializer returns nil.
    ///   - host: The host of the URL.
    ///   - isWithProxy: Whether the handshake is with a proxy. A proxy does not receive the client certificate, and is
    ///     evaluated by the proxy policy.
    package init?(context: TLSContext, host: String?, isWithProxy: Bool) {
        guard let material = context.material else { return nil }
        self.context = context
        self.material = material
        self.host = host
        self.isWithProxy = isWithProxy
    }

    // MARK: Callbacks

    /// Installs the callbacks and settings in a connection's context. Returns false if OpenSSL rejects them.
    package func attach(to sslContext: OpaquePointer) -> Bool {
        guard Self.index >= 0 else { return false }
        let own = Unmanaged.passRetained(self)
        guard SSL_CTX_set_ex_data(sslContext, Self.index, own.toOpaque()) == 1 else {
            own.release()
            return false
        }
        convoy_ssl_context_harden(sslContext)
        guard TLSParameters.apply(context.settings, to: sslContext) else { return false }
        SSL_CTX_set_verify(sslContext, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_cert_verify_callback(
            sslContext,
            { chain, handshake in
                guard let chain, let handshake else { return 0 }
                return Unmanaged<TLSHandshake>.fromOpaque(handshake).takeUnretainedValue().evaluate(chain) ? 1 : 0
            }, own.toOpaque())
        SSL_CTX_set_info_callback(sslContext) { connection, event, value in
            guard event == SSL_CB_READ_ALERT, let handshake = TLSHandshake.of(connection) else { return }
            let number = UInt8(truncatingIfNeeded: value)
            // The first byte is 2 for an error alert.
            if value >> 8 == 2 { handshake.alert = number } else if number == 0 { handshake.hasEnded = true }
        }
        if !isWithProxy, !present(on: sslContext) { return false }
        if mayRequireStatus {
            convoy_ssl_context_request_status(
                sslContext,
                { connection, handshake in
                    guard let connection, let handshake else { return 0 }
                    return Unmanaged<TLSHandshake>.fromOpaque(handshake).takeUnretainedValue()
                        .evaluateStatus(of: connection) ? 1 : 0
                }, own.toOpaque())
        }
        return true
    }

    /// Returns OpenSSL's description of an alert.
    package static func text(ofAlert number: UInt8) -> String {
        SSL_alert_desc_string_long(Int32(number)).map { String(cString: $0) } ?? "alert \(number)"
    }

    /// Returns whether a context limits the maximum TLS version.
    package static func hasMaximumVersion(_ sslContext: OpaquePointer) -> Bool {
        convoy_ssl_context_maximum(sslContext) != 0
    }

    /// Sets the client certificate, if one is configured.
    private func present(on sslContext: OpaquePointer) -> Bool {
        guard let identity = material.identity else {
            SSL_CTX_set_client_cert_cb(sslContext) { connection, _, _ in
                TLSHandshake.of(connection)?.lacksIdentity = true
                return 0
            }
            return true
        }
        // OpenSSL calls the callback only if the server requests a certificate.
        SSL_CTX_set_cert_cb(
            sslContext,
            { connection, _ in
                TLSHandshake.of(connection)?.hasPresentedIdentity = true
                return 1
            }, nil)
        return identity.use(in: sslContext)
    }

    /// The index of this object in OpenSSL contexts, which release the object when they are freed.
    private static let index = CRYPTO_get_ex_new_index(
        CRYPTO_EX_INDEX_SSL_CTX, 0, nil, nil, nil,
        { _, own, _, _, _, _ in
            if let own { Unmanaged<TLSHandshake>.fromOpaque(own).release() }
        })

    /// Returns the handshake of a connection (an `SSL`).
    package static func of(_ connection: OpaquePointer?) -> TLSHandshake? {
        guard let connection, let context = SSL_get_SSL_CTX(connection), let own = SSL_CTX_get_ex_data(context, index)
        else { return nil }
        return Unmanaged<TLSHandshake>.fromOpaque(own).takeUnretainedValue()
    }

    // MARK: The connection

    /// The connection (an `SSL`); nil after OpenSSL has freed it.
    private var connection: OpaquePointer?

    /// Stores the connection that the handshake belongs to.
    package func note(_ connection: OpaquePointer) {
        guard self.connection == nil, Self.connectionIndex >= 0,
            SSL_set_ex_data(connection, Self.connectionIndex, Unmanaged.passUnretained(self).toOpaque()) == 1
        else { return }
        self.connection = connection
    }

    /// Whether OpenSSL has received bytes that have not been read from the connection.
    package var hasUnreadBytes: Bool { connection.map { SSL_has_pending($0) != 0 } ?? false }

    /// The index of this object in OpenSSL connections, which are freed before their contexts.
    private static let connectionIndex = CRYPTO_get_ex_new_index(
        CRYPTO_EX_INDEX_SSL, 0, nil, nil, nil,
        { _, own, _, _, _, _ in
            if let own { Unmanaged<TLSHandshake>.fromOpaque(own).takeUnretainedValue().connection = nil }
        })

    // MARK: Decisions

    /// Whether the policy requires a stapled response, or may require one as soon as the proxy's name is known.
    private var mayRequireStatus: Bool {
        let policy = policy(for: host)
        return policy.requiresStapledStatus
            || host == nil && policy.hostPolicies.values.contains(where: \.requiresStapledStatus)
    }

    private func policy(for host: String?) -> SecurityPolicy {
        let policy = isWithProxy ? context.settings.proxyPolicy : context.settings.policy
        return host.map { policy.policy(forHost: $0) } ?? policy
    }

    /// Evaluates the server's certificates. OpenSSL calls this method when the server has presented them.
    private func evaluate(_ presented: OpaquePointer) -> Bool {
        let trust = ServerTrust(chain: X509_STORE_CTX_get0_untrusted(presented))
        let decision = decide(trust, presented)
        self.decision = decision
        if !decision.isTrusted { self.trust = trust }
        // OpenSSL derives the alert for the server from this code.
        X509_STORE_CTX_set_error(presented, decision.failure?.openSSLCode ?? X509_V_OK)
        return decision.isTrusted
    }

    private func decide(_ trust: ServerTrust, _ presented: OpaquePointer) -> TrustDecision {
        let index = convoy_x509_store_context_ssl_index()
        let host =
            isWithProxy ? Self.serverName(X509_STORE_CTX_get_ex_data(presented, index).map(OpaquePointer.init)) : self.host
        let policy = policy(for: host)
        guard let store = material.stores[policy.certificateAuthorities] else {
            return TrustDecision(failure: .unusable(authorities: .noCertificate(in: "")))
        }
        let lists = material.lists[policy.revocationLists]
        guard lists != nil || policy.revocationLists.isEmpty else {
            return TrustDecision(failure: .unusable(lists: .noRevocationList(in: "")))
        }
        if host == nil, policy.validatesDomainName {
            guard isWithProxy else {
                return TrustDecision(
                    failure: ServerTrustFailure(.wrongHost, "The host of the URL cannot be compared with the certificate."))
            }
            // The name of a proxy that is configured by its address is not known here. libcurl compares the address
            // later, but for a certificate without alternative names it would compare the common name.
            guard let leaf = trust.certificates.first, !leaf.dnsNames.isEmpty || !leaf.addresses.isEmpty else {
                return TrustDecision(
                    failure: ServerTrustFailure(
                        .wrongHost, "The proxy's certificate contains no host name or address.",
                        certificate: trust.certificates.first))
            }
        }
        return policy.evaluate(trust, forDomain: host, at: Date(), store: store, lists: lists)
    }

    /// Returns the server name (SNI) sent to the other side.
    private static func serverName(_ connection: OpaquePointer?) -> String? {
        guard let connection, let name = SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name) else { return nil }
        return String(cString: name)
    }

    /// Evaluates the stapled response. OpenSSL calls this method after `evaluate(_:)`, if a response may be required.
    private func evaluateStatus(of connection: OpaquePointer) -> Bool {
        guard policy(for: isWithProxy ? Self.serverName(connection) : host).requiresStapledStatus else { return true }
        guard let decision, decision.isTrusted, let anchor = decision.chain.last, let store = TrustStore([anchor]) else {
            return false
        }
        var bytes: UnsafePointer<UInt8>?
        let count = convoy_ssl_stapled_response(connection, &bytes)
        let response = bytes.flatMap { count > 0 ? UnsafeRawBufferPointer(start: $0, count: Int(count)) : nil }
        guard let failure = StapledStatus.failure(of: response, for: decision.chain, store: store) else { return true }
        self.decision = TrustDecision(failure: failure, chain: decision.chain)
        trust = ServerTrust(certificates: decision.chain)
        return false
    }
}

extension ServerTrustFailure {
    /// The OpenSSL error code that is closest to the reason.
    fileprivate var openSSLCode: Int32 {
        switch reason {
        case .expired: X509_V_ERR_CERT_HAS_EXPIRED
        case .notYetValid: X509_V_ERR_CERT_NOT_YET_VALID
        case .wrongHost: X509_V_ERR_HOSTNAME_MISMATCH
        case .unknownRoot: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
        case .badSignature: X509_V_ERR_CERT_SIGNATURE_FAILURE
        case .revoked: X509_V_ERR_CERT_REVOKED
        case .wrongUsage: X509_V_ERR_INVALID_PURPOSE
        default: X509_V_ERR_APPLICATION_VERIFICATION
        }
    }
}

/// The TLS versions and cipher suites of an `SSL_CTX`.
enum TLSParameters {
    /// Throws if OpenSSL rejects the settings.
    static func check(_ settings: TLSSettings) throws(TLSConfigurationError) {
        guard settings.versions != nil else { throw .noVersion }
        guard !settings.cipherSuites.isEmpty else { return }
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw .refused(lastError) }
        defer { SSL_CTX_free(context) }
        // Check suites individually, because OpenSSL ignores unknown suites in a list.
        for name in settings.oldCipherSuites where !isName(name) || SSL_CTX_set_cipher_list(context, name) != 1 {
            ERR_clear_error()
            throw .unknownCipherSuite(name)
        }
        for name in settings.newCipherSuites where !isName(name) || SSL_CTX_set_ciphersuites(context, name) != 1 {
            ERR_clear_error()
            throw .unknownCipherSuite(name)
        }
    }

    /// Throws if OpenSSL rejects a certificate and its key. A failure during the handshake would not include OpenSSL's
    /// reason.
    static func check(_ identity: LoadedIdentity) throws(TLSConfigurationError) {
        guard let context = SSL_CTX_new(TLS_client_method()) else { throw .refused(lastError) }
        defer { SSL_CTX_free(context) }
        ERR_clear_error()
        guard identity.use(in: context) else { throw .refused(lastError) }
    }

    /// Returns whether a string is a plain cipher suite name. OpenSSL's cipher strings could also lower the security
    /// level or denote groups of suites. Group names like `aNULL` contain no hyphen.
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

    /// Applies validated settings. Returns false if OpenSSL runs out of memory.
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

    /// OpenSSL's message for the last error on this thread.
    static var lastError: String {
        defer { ERR_clear_error() }
        guard let text = ERR_reason_error_string(ERR_get_error()) else { return "no reason given" }
        return String(cString: text)
    }
}

/// An error that prevents TLS settings from being used. It is the underlying error of a
/// `URLError.secureConnectionFailed`.
public enum TLSConfigurationError: Error, Hashable, Sendable, SelfDescribingError {
    /// OpenSSL does not support the cipher suite, or forbids it.
    case unknownCipherSuite(String)
    /// No TLS version remains: the minimum is above the maximum, or the cipher suites belong to other versions.
    case noVersion
    /// The certificate authorities cannot be read.
    case authorities(CertificateError)
    /// The revocation lists cannot be read.
    case revocationLists(CertificateError)
    /// The client certificate or its key cannot be read.
    case identity(CertificateError)
    /// OpenSSL rejects a setting or runs out of memory. The value is OpenSSL's error message.
    case refused(String)

    public var description: String {
        switch self {
        case .unknownCipherSuite(let name): "OpenSSL does not support the cipher suite \(name.debugDescription)."
        case .noVersion: "No TLS version matches the minimum, the maximum and the cipher suites."
        case .authorities(let error): "The certificate authorities cannot be used: \(error)"
        case .revocationLists(let error): "The revocation lists cannot be used: \(error)"
        case .identity(let error): "The client certificate cannot be used: \(error)"
        case .refused(let text): "OpenSSL rejected the TLS settings: \(text)"
        }
    }
}

/// The TLS version and cipher suite of a connection.
package struct NegotiatedTLS: Sendable, Hashable {
    /// The version as spelled by OpenSSL, for example `TLSv1.3`.
    package let version: String
    /// The registered name of the cipher suite, for example `TLS_AES_256_GCM_SHA384`; nil if it is not registered.
    package let cipherSuite: String?

    /// - Parameter connection: An `SSL` that has completed its handshake. Otherwise the initializer returns nil.
    package init?(_ connection: OpaquePointer) {
        guard let cipher = SSL_get_current_cipher(connection), let version = SSL_get_version(connection) else { return nil }
        self.version = String(cString: version)
        cipherSuite = SSL_CIPHER_standard_name(cipher).map { String(cString: $0) }
    }
}
