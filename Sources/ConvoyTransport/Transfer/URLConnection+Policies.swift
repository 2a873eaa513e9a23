import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// TLS: loads the files that connections need, and handles the results of handshakes.
extension URLConnection {
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
        guard exchange.speaksTLS, !tls.isReady else { return true }
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

    /// Returns the error of a failed handshake, or nil if libcurl's own result is sufficient.
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
                return failure(.clientCertificateRequired, "The server requires a client certificate (\(text)).")
            }
            if handshake.hasPresentedIdentity {
                return failure(.clientCertificateRejected, "The server rejected the client certificate (\(text)).")
            }
        }
        return failure(.secureConnectionFailed, "The server aborted the TLS handshake (\(text)).")
    }

    /// The alert `certificate_required`, defined only for TLS 1.3 (RFC 8446, section 6.2).
    private static let certificateRequired: UInt8 = 116

    /// The alerts with which servers reject a client certificate: `handshake_failure`, those from `bad_certificate` to
    /// `certificate_unknown`, `unknown_ca`, `access_denied`.
    private static let alertsAboutCertificates: Set<UInt8> = [40, 42, 43, 44, 45, 46, 48, 49, certificateRequired]
}

/// Applies HTTP Strict Transport Security (RFC 6797).
extension URLConnection {
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
        guard let store = configuration.routing.hsts, let target = exchange.address?.target, target.isSecure,
            let value = response.values(of: "Strict-Transport-Security").first
        else { return }
        let policy = configuration.securityPolicy.policy(forHost: target.host)
        guard !policy.allowInvalidCertificates, policy.validatesDomainName else { return }
        store.note(value, fromHost: target.host)
    }
}

/// Authorizes requests to servers and proxies.
extension URLConnection {
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
        guard let authorizer = configuration.authorizer?.authorizer, let uri = RequestTarget.originForm(of: address)
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
                uri: tunnel ?? RequestTarget.absoluteForm(of: address), body: tunnel == nil ? body : Data(),
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

    func easyHandle(_ handle: EasyHandle, didReceiveTunnelLine line: UnsafeRawBufferPointer) -> Bool {
        guard let reason = exchange.response.tunnelAnswer.take(line) else { return true }
        exchange.response.failure = failure(.badServerResponse, reason)
        return false
    }

    /// Returns the error for a proxy that refused to open a tunnel.
    func tunnelFailure(status: Int) -> URLError {
        let error = failure(
            status == 407 ? .userAuthenticationRequired : .cannotConnectToHost,
            "The proxy refused to connect to the server: it responded with status \(status).")
        guard status == 407 else { return error }
        var userInfo = error.userInfo
        userInfo[URLError.proxyChallengesKey] = exchange.response.tunnelAnswer.challenges
        return URLError(error.code, describedBy: userInfo)
    }
}

extension URLError {
    /// The `userInfo` key for the values of the `Proxy-Authenticate` fields with which a proxy refused a tunnel (407).
    /// Its value is a `[String]`.
    package static let proxyChallengesKey = "ConvoyProxyChallenges"
}

/// Cookies (RFC 6265bis) of each request and response, including redirects.
extension URLConnection {
    /// Returns the value of the `Cookie` field for a request; nil for none.
    func cookies(for request: TransferRequest, _ address: HTTPAddress) -> [UInt8]? {
        guard let keeper = configuration.cookies?.keeper, !keeper.isEmpty, request.handlesCookies,
            let target = CookieTarget(address)
        else { return nil }
        return keeper.field(for: target, site: request.site, isSafeMethod: RequestRules.isSafe(request.method))
    }

    /// Stores the cookies of a response. Returns false if the acceptance handler must decide first; the response is
    /// then held back.
    func takesCookies(of response: ResponseHead) -> Bool {
        guard let keeper = configuration.cookies?.keeper, exchange.request.handlesCookies,
            // A 407 response comes from the proxy itself.
            response.statusCode != 407, let address = exchange.address, let target = CookieTarget(address)
        else { return true }
        let fields = response.bytes(of: "Set-Cookie", limit: keeper.fieldLimit)
        let url = response.url
        guard keeper.asksBeforeAccepting else {
            keeper.take(fields, from: target, url: url)
            return true
        }
        phase = .askingAboutCookies(response)
        updateFlow(.hold(.cookies))
        BlockingWorkers.shared.perform { [weak self] in
            keeper.takeAsking(fields, from: target, url: url)
            guard let self else { return }
            thread.perform { self.didAskAboutCookies(of: response) }
        }
        return false
    }

    /// Continues with the response that was held back.
    private func didAskAboutCookies(of response: ResponseHead) {
        guard case .askingAboutCookies(let current) = phase, current === response else { return }
        phase = .loading
        goOn(isAccepted: evaluate(response), lifting: .cookies)
    }
}

extension CookieTarget {
    /// Creates the target for a URL, with the path that libcurl sends; nil if libcurl rejects the URL.
    package init?(_ address: HTTPAddress) {
        guard let path = Self.plainPath(of: address) ?? RequestTarget.originForm(of: address)?.prefix(while: { $0 != "?" })
        else { return nil }
        self.init(host: address.target.host, path: String(path), isSecure: address.target.isSecure)
    }

    /// Returns the path if libcurl sends it unchanged: ASCII without dot segments.
    private static func plainPath(of address: HTTPAddress) -> Substring? {
        let rest = address.afterAuthority
        var (end, previous) = (rest.startIndex, UInt8(0))
        while end < rest.endIndex {
            let byte = rest.utf8[end]
            if byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#") { break }
            guard byte > 0x20, byte < 0x7F, !(byte == UInt8(ascii: ".") && previous == UInt8(ascii: "/")) else { return nil }
            previous = byte
            rest.utf8.formIndex(after: &end)
        }
        return rest[..<end]
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
            let uri = RequestTarget.originForm(of: address)
        else { return false }
        if mayBlock(at: uri, of: AuthenticatingServer(address.target)) { return true }
        return configuration.proxyServer(for: address.target).map { mayBlock(at: "", of: $0) } ?? false
    }
}
