import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// TLS: chooses the context of a request, and loads the files that it needs.
extension RequestChain {
    /// Returns the TLS context for a request. After a redirect to another origin, the context has no client
    /// certificate, because the certificate is only for the first origin.
    func tlsContext(for target: Target) -> TLSContext {
        guard followedRedirects > 0, configuration.clientIdentity != nil else { return configuration.tls.context }
        let first = (configuration.continuation?.first ?? firstRequest.url).map { upgraded($0) }
        if SecretScope(of: first).mayReceiveSecrets(target) { return configuration.tls.context }
        return configuration.tls.withoutIdentity.context
    }

    /// Returns whether the request can be passed to libcurl now. If certificates must be read first, the request is
    /// loaded again afterwards.
    ///
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` for plain text to a pinned host.
    func mayBegin(_ target: Target, _ tls: TLSContext) throws(URLError) -> Bool {
        if !target.isSecure, configuration.tls.isPinning {
            guard !configuration.securityPolicy.isPinning(host: target.host) else {
                throw failure(
                    .appTransportSecurityRequiresSecureConnection,
                    "The security policy pins this host, so it can be accessed only over https.")
            }
        }
        guard step.speaksTLS, !tls.isReady else { return true }
        phase = .preparingTLS
        tls.prepare(on: BlockingWorkers.shared.perform) { failure in
            self.thread.perform { self.didPrepareTLS(failure) }
        }
        return false
    }

    private func didPrepareTLS(_ failure: TLSConfigurationError?) {
        guard case .preparingTLS = phase else { return }
        guard let failure else { return load(ChainStep(again: step)) }
        fail(self.failure(.secureConnectionFailed, failure.description, underlying: failure))
    }
}

/// Applies HTTP Strict Transport Security (RFC 6797).
extension RequestChain {
    /// Returns the same URL over https if the store requires TLS for its host (RFC 6797, section 8.3); otherwise nil.
    func upgraded(_ address: HTTPAddress) -> HTTPAddress? {
        guard let store = configuration.routing.hsts, !address.target.isSecure,
            store.requiresTLS(forHost: address.target.host)
        else { return nil }
        return address.secured
    }

    /// Upgrades the target of a redirect before the redirect rules are applied.
    func upgraded(_ target: URL) -> URL {
        guard let address = HTTPAddress(target.absoluteString), !address.hasUserInfo, let secured = upgraded(address) else {
            return target
        }
        return URL(string: secured.text) ?? target
    }

    /// Stores the policy that a response specifies for its host. The policy counts only if the server's certificate was
    /// verified, not if the security policy allows invalid certificates (RFC 6797, section 8.1).
    func noteStrictTransportSecurity(in response: ResponseHead) {
        guard let store = configuration.routing.hsts, let target = step.address?.target, target.isSecure,
            let value = response.values(of: "Strict-Transport-Security").first
        else { return }
        let policy = configuration.securityPolicy.policy(forHost: target.host)
        guard !policy.allowInvalidCertificates, policy.validatesDomainName else { return }
        store.note(value, fromHost: target.host)
    }
}
