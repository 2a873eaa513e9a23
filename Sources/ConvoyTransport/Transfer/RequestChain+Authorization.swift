import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// Authorizes requests to servers and proxies.
extension RequestChain {
    /// The authorizations of a request.
    struct Authorizations {
        /// The value of `Authorization`.
        var field: String?
        /// The user and password from which the field was created.
        var identity: (user: String, password: String)?
        /// The value of `Proxy-Authorization`.
        var proxyField: String?
        var negotiation: Negotiation?
        /// The credential for the proxy's tunnel, unless the proxy's own configuration has one.
        var tunnelCredential: ProxyCredential?
    }

    /// Queries the authorizer separately for the server and for its proxy, so that neither receives the other's
    /// credentials, and no other origin receives those of the first.
    func authorize(_ request: TransferRequest, _ address: HTTPAddress, over route: Route?) -> Authorizations {
        let proxy = route?.proxy
        var result = Authorizations()
        if let proxy {
            let own = request.proxyAuthorization
            // Send the credential now, because a challenge from the proxy would not be answered.
            if !configuration.answersChallenges, own == nil { result.proxyField = proxy.authorization }
            // A tunnel opened with this credential carries only requests that have the same credential.
            result.tunnelCredential = own.map { ProxyCredential(user: "", password: $0) }
        }
        let keepsDots = configuration.keepsDotSegments
        guard let authorizer = configuration.authorizer?.authorizer,
            let uri = RequestTarget.originForm(of: address, keepingDotSegments: keepsDots)
        else { return result }
        let target = address.target
        let body = request.bodyStream == nil ? request.body ?? Data() : nil
        var server: Negotiation.Party?
        var ofProxy: Negotiation.Party?
        let forServer = AuthorizationTarget(
            server: AuthenticatingServer(target), method: request.method, uri: uri, body: body, mayBlock: thread.mayBlock,
            hasOwn: request.hasAuthorization)
        switch authorizer.authorization(for: forServer) {
        case .field(let value, let user, let password):
            result.field = value
            result.identity = (user, password)
        case .connection(let method, let user, let password):
            server = .init(method: method, user: user, password: password)
        case nil: break
        }
        if let proxy, let asking = proxy.authenticatingServer {
            let tunnel = route?.tunnelTarget(for: target)
            let forProxy = AuthorizationTarget(
                server: asking, method: tunnel == nil ? request.method : "CONNECT",
                uri: tunnel ?? RequestTarget.absoluteForm(of: address, keepingDotSegments: keepsDots),
                body: tunnel == nil ? body : Data(),
                mayBlock: thread.mayBlock, hasOwn: request.proxyAuthorization != nil)
            switch authorizer.authorization(for: forProxy) {
            case .field(let value, let user, let password):
                result.proxyField = value
                let credential = ProxyCredential(user: user, password: password)
                if tunnel != nil, credential != proxy.credential { result.tunnelCredential = credential }
            case .connection(let method, let user, let password):
                ofProxy = .init(method: method, user: user, password: password)
            case nil: break
            }
        }
        if server != nil || ofProxy != nil { result.negotiation = Negotiation(server: server, proxy: ofProxy) }
        return result
    }
}

/// The servers and proxies that may send challenges.
extension ConnectionConfiguration {
    /// Returns the HTTP proxy for a target as a server that may require authentication.
    package func proxyServer(for target: Target) -> AuthenticatingServer? {
        guard unixSocket == nil else { return nil }
        return (try? proxy.proxy(for: target))?.authenticatingServer
    }

    /// Returns whether a proxied request to the target uses a tunnel, so that no response comes from the proxy itself.
    package func tunnelsIfProxied(to target: Target) -> Bool { target.isSecure || fixedAddress(for: target) != nil }

    /// Returns whether the server of a request, or its proxy, has sent a challenge before.
    package func isAsked(about target: Target?) -> Bool {
        guard let target else { return false }
        let memory = AuthorizationMemory.shared
        return memory.knows(AuthenticatingServer(target)) || proxyServer(for: target).map(memory.knows) == true
    }

    /// Adds the credentials of the proxies, including the environment's proxy for https, which a redirect may use.
    package func addProxyCredentials(to source: inout CredentialSource) {
        guard unixSocket == nil else { return }
        for isSecure in [false, true] {
            // Ignore exceptions for hosts, because they only prevent the use of the proxy.
            guard let proxy = try? proxy.proxy(isSecure: isSecure, host: nil), let credential = proxy.credential,
                let server = proxy.authenticatingServer
            else { continue }
            source.ofProxies[server] = URLCredential(
                user: credential.user, password: credential.password, persistence: .none)
        }
    }
}

extension Proxy {
    /// The proxy as a server that may require authentication; nil for protocols other than HTTP.
    var authenticatingServer: AuthenticatingServer? {
        guard kind.isHTTP else { return nil }
        return AuthenticatingServer(scheme: kind == .https ? "https" : "http", host: host, port: port, isProxy: true)
    }
}

extension AuthenticationRecord {
    /// Returns whether authorizing a request may block the calling thread.
    package func mayBlock(_ request: TransferRequest, over configuration: ConnectionConfiguration) -> Bool {
        guard let address = try? RequestRules.address(of: request, hasCache: true),
            let uri = RequestTarget.originForm(of: address, keepingDotSegments: configuration.keepsDotSegments)
        else { return false }
        if mayBlock(at: uri, of: AuthenticatingServer(address.target)) { return true }
        return configuration.proxyServer(for: address.target).map { mayBlock(at: "", of: $0) } ?? false
    }
}
