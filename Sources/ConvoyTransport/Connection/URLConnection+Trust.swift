import CCurl
import ConvoySecurity
import Foundation
import FoundationNetworking

/// TLS: what must be known before a connection is made, and what a handshake has decided.
extension URLConnection {
    /// Whether the request can be handed to libcurl now. If certificates have to be read first, it is loaded again when
    /// they were.
    ///
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` for a host that is pinned, over plain text.
    func mayBegin(_ request: TransferRequest, _ address: String, isSecure: Bool) throws(URLError) -> Bool {
        if !isSecure, configuration.tls.isPinning {
            let policy = configuration.securityPolicy
            guard !(Self.host(of: address).map(policy.policy(forHost:)) ?? policy).isPinning else {
                throw URLError(
                    .appTransportSecurityRequiresSecureConnection, url: request.url,
                    "The security policy pins the server, which can be told from others only over https.")
            }
        }
        guard isSecure || speaksTLSWithProxy, !configuration.tls.context.isReady else { return true }
        currentRequest = request
        phase = .preparingTLS
        configuration.tls.context.prepare(on: BlockingWorkers.shared.perform) { failure in
            self.thread.perform { self.didPrepareTLS(failure) }
        }
        return false
    }

    private func didPrepareTLS(_ failure: TLSConfigurationError?) {
        guard case .preparingTLS = phase else { return }
        guard let failure else { return load(currentRequest) }
        fail(self.failure(.secureConnectionFailed, failure.description, underlying: failure))
    }

    func easyHandle(
        _ handle: EasyHandle, beginsHandshakeWithProxy isWithProxy: Bool, _ tls: TLSContext
    ) -> TLSHandshake? {
        TLSHandshake(context: tls, host: currentRequest.address.flatMap(Self.host), isWithProxy: isWithProxy)
    }

    /// The host of a URL, as libcurl reads it, which connects to it.
    private static func host(of address: String) -> String? {
        guard let parts = curl_url() else { return nil }
        defer { curl_url_cleanup(parts) }
        var host: UnsafeMutablePointer<CChar>?
        guard curl_url_set(parts, CURLUPART_URL, address, 0) == CURLUE_OK,
            curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK, let host
        else { return nil }
        defer { curl_free(host) }
        return String(cString: host)
    }

    /// The error of a handshake that failed; nil if libcurl's own result says all.
    func handshakeError(_ handle: EasyHandle) -> URLError? {
        guard let handshake = handle.handshake else { return nil }
        if let failure = handshake.decision?.failure {
            return URLError(
                untrusted: failure, presented: handshake.trust?.certificates ?? [], url: currentRequest.url,
                isProxy: handshake.isWithProxy)
        }
        guard let alert = handshake.alert.flatMap(CertificateAlert.init) else { return nil }
        if handshake.hasPresentedIdentity, alert != .certificateRequired {
            return failure(.clientCertificateRejected, "The server refuses the client's certificate: \(alert).")
        }
        guard handshake.lacksIdentity || alert == .certificateRequired else { return nil }
        return failure(.clientCertificateRequired, "The server requires a certificate of the client (\(alert)).")
    }
}

/// Alerts that are about certificates (RFC 8446, section 6.2).
private enum CertificateAlert: UInt8, CustomStringConvertible {
    case handshakeFailure = 40
    case badCertificate = 42
    case unsupportedCertificate = 43
    case certificateRevoked = 44
    case certificateExpired = 45
    case certificateUnknown = 46
    case unknownAuthority = 48
    case accessDenied = 49
    case certificateRequired = 116

    var description: String {
        switch self {
        case .handshakeFailure: "handshake failure"
        case .badCertificate: "bad certificate"
        case .unsupportedCertificate: "unsupported certificate"
        case .certificateRevoked: "certificate revoked"
        case .certificateExpired: "certificate expired"
        case .certificateUnknown: "certificate unknown"
        case .unknownAuthority: "unknown authority"
        case .accessDenied: "access denied"
        case .certificateRequired: "certificate required"
        }
    }
}
