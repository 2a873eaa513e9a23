import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// Who asks for credentials on the way of a request.
extension ConnectionConfiguration {
    /// The proxy that a request to a target goes through, if it speaks HTTP, as one that may ask for credentials.
    package func proxyServer(for target: Target) -> AuthenticatingServer? {
        guard unixSocket == nil else { return nil }
        return (try? proxy.proxy(for: target))?.authenticatingServer
    }

    /// Whether a proxy would be asked for a tunnel to a target, so that no response comes from the proxy.
    package func tunnelsIfProxied(to target: Target) -> Bool { target.isSecure || fixedAddress(for: target) != nil }

    /// Whether the server of a request, or the proxy that it goes through, has asked for anything.
    package func isAsked(about target: Target?) -> Bool {
        guard let target else { return false }
        let memory = AuthorizationMemory.shared
        return memory.knows(AuthenticatingServer(target)) || proxyServer(for: target).map(memory.knows) == true
    }

    /// Adds the credentials of the proxies: the environment may name another one for https, where a redirect may lead.
    package func addProxyCredentials(to source: inout CredentialSource) {
        guard unixSocket == nil else { return }
        for isSecure in [false, true] {
            // Whichever host: an exception only means that nobody asks.
            guard let proxy = try? proxy.proxy(isSecure: isSecure, host: nil), let credential = proxy.credential,
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
        guard let address = try? RequestRules.address(of: request, hasCache: true),
            let uri = RequestTarget.originForm(of: address)
        else { return false }
        if mayBlock(at: uri, of: AuthenticatingServer(address.target)) { return true }
        return configuration.proxyServer(for: address.target).map { mayBlock(at: "", of: $0) } ?? false
    }
}
