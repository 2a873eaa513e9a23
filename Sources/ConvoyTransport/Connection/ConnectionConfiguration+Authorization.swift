import ConvoySecurity
import Foundation
import FoundationNetworking

/// Who asks for credentials on the way of a request.
extension ConnectionConfiguration {
    /// The proxy that a request for a URL goes through, if it speaks HTTP.
    private func httpProxy(for url: URL) -> Proxy? {
        guard unixSocket == nil else { return nil }
        let address = url.absoluteString
        let isSecure = url.scheme?.lowercased() == "https"
        let chosen = try? proxy.proxy(isSecure: isSecure) { RequestTarget(address)?.host }
        return chosen?.kind.isHTTP == true ? chosen : nil
    }

    /// The same, as one that may ask for credentials.
    package func proxyServer(for url: URL) -> AuthenticatingServer? { httpProxy(for: url)?.authenticatingServer }

    /// Whether a proxy would be asked for a tunnel to the server of a URL, so that no response comes from the proxy.
    package func tunnelsIfProxied(to url: URL) -> Bool {
        url.scheme?.lowercased() == "https" || fixedAddress(for: url) != nil
    }

    /// Whether the server of a URL, or the proxy that a request for it goes through, has asked for anything.
    package func isAsked(about url: URL?) -> Bool {
        guard let url else { return false }
        let memory = AuthorizationMemory.shared
        return AuthenticatingServer(url).map(memory.knows) == true || proxyServer(for: url).map(memory.knows) == true
    }

    /// Adds the credentials of the proxies: the environment may name another one for https, where a redirect may lead.
    package func addProxyCredentials(to source: inout CredentialSource) {
        guard unixSocket == nil else { return }
        for isSecure in [false, true] {
            // Whichever host: an exception only means that nobody asks.
            guard let proxy = try? proxy.proxy(isSecure: isSecure, host: { nil }), let credential = proxy.credential,
                let server = proxy.authenticatingServer
            else { continue }
            source.ofProxies[server] = URLCredential(
                user: credential.user, password: credential.password, persistence: .none)
        }
    }
}

extension Proxy {
    /// One that may ask for credentials; nil for those that do not speak HTTP.
    var authenticatingServer: AuthenticatingServer? {
        guard kind.isHTTP else { return nil }
        return AuthenticatingServer(scheme: kind == .https ? "https" : "http", host: host, port: port, isProxy: true)
    }
}

extension AuthenticationRecord {
    /// Whether a request needs a thread that may be blocked.
    package func mayBlock(_ request: TransferRequest, over configuration: ConnectionConfiguration) -> Bool {
        guard let address = request.address, let url = request.url, let server = AuthenticatingServer(url),
            let target = RequestTarget(address)
        else { return false }
        if mayBlock(at: target.uri, of: server) { return true }
        return configuration.proxyServer(for: url).map { mayBlock(at: "", of: $0) } ?? false
    }
}
