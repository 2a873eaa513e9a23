import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// TLS: what must be known before a connection is made, and what a handshake has decided.
extension URLConnection {
    /// The settings of TLS for a request. After a redirect to another origin the client does not say who it is: that is
    /// for the server that was asked.
    func tlsContext(for target: Target) -> TLSContext {
        guard followedRedirects > 0, configuration.clientIdentity != nil,
            (configuration.continuation.map { Target($0.first) } ?? firstRequest.target) != target
        else { return configuration.tls.context }
        return configuration.tls.withoutIdentity.context
    }

    /// Whether the request can be handed to libcurl now. If certificates have to be read first, it is loaded again when
    /// they were.
    ///
    /// - Parameter speaksTLS: whether TLS is spoken with the server, or else with a proxy.
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` for a host that is pinned, over plain text.
    func mayBegin(
        _ request: TransferRequest, _ target: Target, _ tls: TLSContext, speaksTLS: Bool
    ) throws(URLError) -> Bool {
        if !target.isSecure, configuration.tls.isPinning {
            guard !configuration.securityPolicy.isPinning(host: target.host) else {
                throw URLError(
                    .appTransportSecurityRequiresSecureConnection, url: request.url,
                    "The security policy pins the server, which can be told from others only over https.")
            }
        }
        guard speaksTLS, !tls.isReady else { return true }
        phase = .preparingTLS
        tls.prepare(on: BlockingWorkers.shared.perform) { failure in
            self.thread.perform { self.didPrepareTLS(failure) }
        }
        return false
    }

    private func didPrepareTLS(_ failure: TLSConfigurationError?) {
        guard case .preparingTLS = phase else { return }
        guard let failure else { return load(Exchange(again: exchange)) }
        fail(self.failure(.secureConnectionFailed, failure.description, underlying: failure))
    }

    func easyHandle(
        _ handle: EasyHandle, beginsHandshakeWithProxy isWithProxy: Bool, _ tls: TLSContext
    ) -> TLSHandshake? {
        TLSHandshake(context: tls, host: exchange.address?.target.host, isWithProxy: isWithProxy)
    }

    /// The error of a handshake that failed; nil if libcurl's own result says all.
    func handshakeError(_ handle: EasyHandle) -> URLError? {
        guard let handshake = handle.handshake else { return nil }
        if let failure = handshake.decision?.failure {
            return URLError(
                untrusted: failure, presented: handshake.trust?.certificates ?? [], url: exchange.request.url,
                isProxy: handshake.isWithProxy)
        }
        guard let alert = handshake.alert else { return nil }
        let text = TLSHandshake.text(ofAlert: alert)
        if Self.alertsAboutCertificates.contains(alert) {
            if handshake.lacksIdentity || alert == Self.certificateRequired {
                return failure(.clientCertificateRequired, "The server requires a certificate of the client (\(text)).")
            }
            if handshake.hasPresentedIdentity {
                return failure(.clientCertificateRejected, "The server refuses the client's certificate (\(text)).")
            }
        }
        return failure(.secureConnectionFailed, "The server has broken off TLS (\(text)).")
    }

    /// `certificate_required`, which only TLS 1.3 has (RFC 8446, section 6.2).
    private static let certificateRequired: UInt8 = 116

    /// What servers say about a certificate that they asked for: `handshake_failure`, those from `bad_certificate` to
    /// `certificate_unknown`, `unknown_ca`, `access_denied`.
    private static let alertsAboutCertificates: Set<UInt8> = [40, 42, 43, 44, 45, 46, 48, 49, certificateRequired]
}
