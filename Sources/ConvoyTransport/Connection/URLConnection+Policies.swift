import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// TLS: loading what connections need, and the results of handshakes.
extension URLConnection {
    /// The TLS context for a request. After a redirect to another origin it has no client certificate, which is only
    /// for the first one.
    func tlsContext(for target: Target) -> TLSContext {
        guard followedRedirects > 0, configuration.clientIdentity != nil,
            (configuration.continuation.map { Target($0.first) } ?? firstRequest.target) != target
        else { return configuration.tls.context }
        return configuration.tls.withoutIdentity.context
    }

    /// Whether the request can be passed to libcurl now. If certificates must be read first, it is loaded again
    /// afterwards.
    ///
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` for a host that is pinned, over plain text.
    func mayBegin(_ target: Target, _ tls: TLSContext) throws(URLError) -> Bool {
        if !target.isSecure, configuration.tls.isPinning {
            guard !configuration.securityPolicy.isPinning(host: target.host) else {
                throw failure(
                    .appTransportSecurityRequiresSecureConnection,
                    "The security policy pins the server, which can be told from others only over https.")
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

    /// The error of a failed handshake; nil if libcurl's own result is enough.
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

    /// Alerts by which servers refuse a requested certificate: `handshake_failure`, those from `bad_certificate` to
    /// `certificate_unknown`, `unknown_ca`, `access_denied`.
    private static let alertsAboutCertificates: Set<UInt8> = [40, 42, 43, 44, 45, 46, 48, 49, certificateRequired]
}

/// Applies HTTP Strict Transport Security (RFC 6797).
extension URLConnection {
    /// The same URL over https, if the store requires TLS for its host (RFC 6797, section 8.3); else nil.
    func upgraded(_ address: HTTPAddress) -> HTTPAddress? {
        guard let store = configuration.routing.hsts, !address.target.isSecure,
            store.requiresTLS(forHost: address.target.host)
        else { return nil }
        return address.secured
    }

    /// Upgrades the target of a redirect, before the rules for redirects are applied.
    func upgraded(_ target: URL) -> URL {
        guard let address = HTTPAddress(target.absoluteString), !address.hasUserInfo, let secured = upgraded(address) else {
            return target
        }
        return URL(string: secured.text) ?? target
    }

    /// Notes the policy that a response states for its host. It counts only if the server's certificate was verified,
    /// not if the policy allows invalid ones (RFC 6797, section 8.1).
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
        /// The user and password that the field was made from.
        var identity: (user: String, password: String)?
        /// The value of `Proxy-Authorization`.
        var proxyField: String?
        var negotiation: Negotiation?
        /// The credential for the proxy's tunnel, if the proxy's own configuration has none.
        var tunnelCredential: ProxyCredential?
    }

    /// Asks the authorizer once for the server of a request, and once for its proxy, so that neither receives the
    /// other's credentials, nor another origin those of the first.
    func authorize(_ request: TransferRequest, _ address: HTTPAddress, over route: Route?) -> Authorizations {
        let proxy = route?.proxy
        var result = Authorizations()
        if let proxy {
            let own = request.proxyAuthorization
            // A challenge of the proxy would not be answered.
            if !configuration.answersChallenges, own == nil { result.proxyField = proxy.authorization }
            // A tunnel that was opened with it carries only requests that have it.
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

    /// The error of a proxy that refuses a tunnel.
    func tunnelFailure(status: Int) -> URLError {
        let error = failure(
            status == 407 ? .userAuthenticationRequired : .cannotConnectToHost,
            "The proxy refused to connect to the server: it answered with the status \(status).")
        guard status == 407 else { return error }
        var userInfo = error.userInfo
        userInfo[URLError.proxyChallengesKey] = exchange.response.tunnelAnswer.challenges
        return URLError(error.code, describedBy: userInfo)
    }
}

extension URLError {
    /// A key in the `userInfo` of the error of a tunnel that a proxy has refused with 407: the values of its
    /// `Proxy-Authenticate` fields, as `[String]`.
    package static let proxyChallengesKey = "ConvoyProxyChallenges"
}

/// Cookies (RFC 6265bis) of each request and response, including redirects.
extension URLConnection {
    /// The value of the `Cookie` field of a request; nil for none.
    func cookies(for request: TransferRequest, _ address: HTTPAddress) -> [UInt8]? {
        guard let keeper = configuration.cookies?.keeper, !keeper.isEmpty, request.handlesCookies,
            let target = CookieTarget(address)
        else { return nil }
        return keeper.field(for: target, site: request.site, isSafeMethod: RequestRules.isSafe(request.method))
    }

    /// Stores the cookies of a response. False if the acceptance handler must be asked first; the response is then held
    /// up.
    func takesCookies(of response: ResponseHead) -> Bool {
        guard let keeper = configuration.cookies?.keeper, exchange.request.handlesCookies,
            // The proxy's own response.
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

    /// Continues with the response that was held up.
    private func didAskAboutCookies(of response: ResponseHead) {
        guard case .askingAboutCookies(let current) = phase, current === response else { return }
        phase = .loading
        goOn(isAccepted: evaluate(response), lifting: .cookies)
    }
}

extension TransferRequest {
    var handlesCookies: Bool {
        switch self {
        case .foundation(let request): request.httpShouldHandleCookies
        case .prepared: true
        }
    }

    /// The site that makes the request; nil for the server's own.
    var site: URL? {
        switch self {
        case .foundation(let request): request.mainDocumentURL
        case .prepared: nil
        }
    }
}

extension CookieTarget {
    /// The place of a URL, with the path that libcurl sends; nil for what libcurl refuses.
    package init?(_ address: HTTPAddress) {
        guard let path = Self.plainPath(of: address) ?? RequestTarget.originForm(of: address)?.prefix(while: { $0 != "?" })
        else { return nil }
        self.init(host: address.target.host, path: String(path), isSecure: address.target.isSecure)
    }

    /// The same for a path that libcurl sends unchanged: ASCII without dot segments.
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

/// Which servers and proxies may ask for credentials.
extension ConnectionConfiguration {
    /// The HTTP proxy of a request to a target, as a server that may require authentication.
    package func proxyServer(for target: Target) -> AuthenticatingServer? {
        guard unixSocket == nil else { return nil }
        return (try? proxy.proxy(for: target))?.authenticatingServer
    }

    /// Whether a request to the target uses a tunnel through its proxy, so that no response comes from the proxy.
    package func tunnelsIfProxied(to target: Target) -> Bool { target.isSecure || fixedAddress(for: target) != nil }

    /// Whether the server of a request, or its proxy, has sent a challenge before.
    package func isAsked(about target: Target?) -> Bool {
        guard let target else { return false }
        let memory = AuthorizationMemory.shared
        return memory.knows(AuthenticatingServer(target)) || proxyServer(for: target).map(memory.knows) == true
    }

    /// Adds the credentials of the proxies, including the environment's proxy for https, to which a redirect may lead.
    package func addProxyCredentials(to source: inout CredentialSource) {
        guard unixSocket == nil else { return }
        for isSecure in [false, true] {
            // Any host will do: an exception only means that the proxy is not used.
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
    /// Whether authorizing a request may block its thread.
    package func mayBlock(_ request: TransferRequest, over configuration: ConnectionConfiguration) -> Bool {
        guard let address = try? RequestRules.address(of: request, hasCache: true),
            let uri = RequestTarget.originForm(of: address)
        else { return false }
        if mayBlock(at: uri, of: AuthenticatingServer(address.target)) { return true }
        return configuration.proxyServer(for: address.target).map { mayBlock(at: "", of: $0) } ?? false
    }
}
