import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// Hosts that are to be reached over TLS only (RFC 6797).
extension URLConnection {
    /// The same URL over https, if its host is one of those that the store knows (RFC 6797, section 8.3); else nil.
    func upgraded(_ address: HTTPAddress) -> HTTPAddress? {
        guard let store = configuration.routing.hsts, !address.target.isSecure,
            store.requiresTLS(forHost: address.target.host)
        else { return nil }
        return address.secured
    }

    /// The target of a redirect that leads to such a host, before anybody judges it.
    func upgraded(_ target: URL) -> URL {
        guard let address = HTTPAddress(target.absoluteString), !address.hasUserInfo, let secured = upgraded(address) else {
            return target
        }
        return URL(string: secured.text) ?? target
    }

    /// Takes what a response says about its host. It counts only where the server was trusted for its certificate, not
    /// because the policy trusts anybody (RFC 6797, section 8.1).
    func noteStrictTransportSecurity(in response: ResponseHead) {
        guard let store = configuration.routing.hsts, let target = exchange.address?.target, target.isSecure,
            let value = response.values(of: "Strict-Transport-Security").first
        else { return }
        let policy = configuration.securityPolicy.policy(forHost: target.host)
        guard !policy.allowInvalidCertificates, policy.validatesDomainName else { return }
        store.note(value, fromHost: target.host)
    }
}
