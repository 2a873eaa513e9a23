import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The errors of exchanges with a server.
extension NetworkExchange {
    /// Creates the error for a libcurl result.
    func error(for code: CURLcode, _ chain: RequestChain) -> URLError {
        if let error = addressError(chain) { return error }
        if !response.head.hasBegun, let error = handshakeError(chain) { return error }
        let proxyStatus = handle.long(CURLINFO_HTTP_CONNECTCODE)
        if proxyStatus >= 300 {
            return tunnelFailure(status: proxyStatus, chain)
        }
        if code == CURLE_PROXY, let error = proxyError(chain) { return error }
        if response.head.hasBegun, !response.head.isWhole,
            code == CURLE_OUT_OF_MEMORY || code.rawValue == CurlQuirks.tooLarge
        {
            return chain.failure(.badServerResponse, "A header field of the response exceeds libcurl's limit of 100 KB.")
        }
        let systemError = handle.long(CURLINFO_OS_ERRNO)
        var text = handle.failureText
        if code == CURLE_COULDNT_CONNECT, let socket = chain.step.route?.unixSocket {
            text = socket.failureText(Int32(truncatingIfNeeded: systemError))
        }
        let error = URLError(curl: code, systemError: systemError, text: text, url: chain.step.request.url)
        // libcurl cannot rewind the body. Report the failure as a lost connection, because a new stream can be sent
        // over a different connection.
        if code == CURLE_SEND_FAIL_REWIND, !response.head.isWhole {
            return URLError(.networkConnectionLost, describedBy: error.userInfo)
        }
        // If libcurl has no specific error and the response has begun, the response is invalid.
        return error.code == .unknown && (response.head.hasBegun || response.tunnelAnswer.hasBegun)
            ? URLError(.badServerResponse, describedBy: error.userInfo) : error
    }

    /// Returns the error of a failed handshake, or nil if libcurl's own result is sufficient.
    private func handshakeError(_ chain: RequestChain) -> URLError? {
        guard let handshake = handle.handshake else { return nil }
        if let failure = handshake.decision?.failure {
            return URLError(
                untrusted: failure, presented: handshake.trust?.certificates ?? [], url: chain.step.request.url,
                isProxy: handshake.isWithProxy)
        }
        guard let alert = handshake.alert else { return nil }
        let text = TLSHandshake.text(ofAlert: alert)
        if Self.alertsAboutCertificates.contains(alert) {
            if handshake.lacksIdentity || alert == Self.certificateRequired {
                return chain.failure(.clientCertificateRequired, "The server requires a client certificate (\(text)).")
            }
            if handshake.hasPresentedIdentity {
                return chain.failure(.clientCertificateRejected, "The server rejected the client certificate (\(text)).")
            }
        }
        return chain.failure(.secureConnectionFailed, "The server aborted the TLS handshake (\(text)).")
    }

    /// The alert `certificate_required`, defined only for TLS 1.3 (RFC 8446, section 6.2).
    private static let certificateRequired: UInt8 = 116

    /// The alerts with which servers reject a client certificate: `handshake_failure`, those from `bad_certificate` to
    /// `certificate_unknown`, `unknown_ca`, `access_denied`.
    private static let alertsAboutCertificates: Set<UInt8> = [40, 42, 43, 44, 45, 46, 48, 49, certificateRequired]

    /// Returns the error for a proxy that refused to open a tunnel.
    private func tunnelFailure(status: Int, _ chain: RequestChain) -> URLError {
        let error = chain.failure(
            status == 407 ? .userAuthenticationRequired : .cannotConnectToHost,
            "The proxy refused to connect to the server: it responded with status \(status).")
        return status == 407 ? error.adding(response.tunnelAnswer.challenges, for: URLError.proxyChallengesKey) : error
    }

    /// Returns the error of a transfer whose addresses were all rejected or could not be bound; nil if any was tried.
    private func addressError(_ chain: RequestChain) -> URLError? {
        let addresses = handle.addresses
        if let refusal = addresses.refusal { return URLError(refused: refusal, url: chain.step.request.url) }
        guard addresses.openedCount == 0, addresses.bindError != 0 else { return nil }
        let reason = String(cString: strerror(addresses.bindError))
        return chain.failure(
            .cannotConnectToHost, "Cannot connect from the configured interface or address: \(reason).",
            underlying: NSError(domain: NSPOSIXErrorDomain, code: Int(addresses.bindError)))
    }

    /// Returns the error for a SOCKS proxy's response; nil if libcurl's own result is sufficient.
    private func proxyError(_ chain: RequestChain) -> URLError? {
        switch UInt32(truncatingIfNeeded: handle.long(CURLINFO_PROXY_ERROR)) {
        case CURLPX_USER_REJECTED.rawValue, CURLPX_NO_AUTH.rawValue, CURLPX_IDENTD.rawValue, CURLPX_IDENTD_DIFFER.rawValue:
            chain.failure(.userAuthenticationRequired, "The proxy rejected the user: \(handle.failureText)")
        case CURLPX_RESOLVE_HOST.rawValue: chain.failure(.cannotFindHost, handle.failureText)
        default: nil
        }
    }
}

extension URLError {
    /// The `userInfo` key for the values of the `Proxy-Authenticate` fields with which a proxy refused a tunnel (407).
    /// Its value is a `[String]`.
    package static let proxyChallengesKey = "ConvoyProxyChallenges"
}
