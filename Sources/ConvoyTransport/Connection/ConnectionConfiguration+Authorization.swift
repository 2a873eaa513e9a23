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
        let chosen = try? proxy.proxy(isSecure: isSecure) { RequestTarget(address).host }
        return chosen?.kind.isHTTP == true ? chosen : nil
    }

    /// The same, as one that may ask for credentials.
    package func proxyServer(for url: URL) -> AuthenticatingServer? { httpProxy(for: url)?.authenticatingServer }

    /// Whether the server of a URL, or the proxy that a request for it goes through, has asked for anything.
    package func isAsked(about url: URL?) -> Bool {
        guard let url else { return false }
        let memory = AuthorizationMemory.shared
        return AuthenticatingServer(url).map(memory.knows) == true || proxyServer(for: url).map(memory.knows) == true
    }

    /// Adds the credential of the proxy through which a request for a URL goes.
    package func addProxyCredential(to source: inout CredentialSource, for url: URL?) {
        guard let url, let proxy = httpProxy(for: url), let credential = proxy.credential else { return }
        source.proxy = proxy.authenticatingServer
        source.ofProxy = URLCredential(user: credential.user, password: credential.password, persistence: .none)
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
        guard let address = request.address, let url = request.url, let server = AuthenticatingServer(url) else {
            return false
        }
        if mayBlock(at: RequestTarget(address).uri, of: server) { return true }
        return configuration.proxyServer(for: url).map { mayBlock(at: "", of: $0) } ?? false
    }
}
