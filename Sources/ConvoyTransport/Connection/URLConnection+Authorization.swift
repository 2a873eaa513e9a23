import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// Who the client is, said to servers and proxies that ask for it.
extension URLConnection {
    /// What a request says of who the client is.
    struct Authorizations {
        /// The value of `Authorization`.
        var field: String?
        /// For whom it speaks.
        var identity: (user: String, password: String)?
        /// The value of `Proxy-Authorization`.
        var proxyField: String?
        var negotiation: Negotiation?
        /// For whom a proxy is asked for a tunnel, where the proxy's own configuration does not say it.
        var tunnelCredential: ProxyCredential?
    }

    /// Asks the authorizer, once for the server of a request, and once for the proxy that it travels through. So neither
    /// sees what is meant for the other, nor another origin what was meant for the first.
    func authorize(_ request: TransferRequest, _ address: HTTPAddress, over route: Route?) -> Authorizations {
        let proxy = route?.proxy
        var result = Authorizations()
        if let proxy {
            let own = request.proxyAuthorization
            // Nobody would answer a proxy that asks.
            if !configuration.answersChallenges, own == nil { result.proxyField = proxy.authorization }
            // The tunnel that it opens carries no request without it.
            result.tunnelCredential = own.map { ProxyCredential(user: "", password: $0) }
        }
        guard let authorizer = configuration.authorizer?.authorizer, let uri = RequestTarget.originForm(of: address)
        else { return result }
        let target = address.target
        let body = request.bodyStream == nil ? request.body ?? Data() : nil
        var negotiation = Negotiation()
        let forServer = AuthorizationTarget(
            server: AuthenticatingServer(target), method: request.method, uri: uri, body: body, mayBlock: thread.mayBlock,
            hasOwn: request.hasAuthorization)
        switch authorizer.authorization(for: forServer) {
        case .field(let value, let user, let password):
            result.field = value
            result.identity = (user, password)
        case .connection(let method, let user, let password):
            negotiation.server = .init(method: method, user: user, password: password)
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
                negotiation.proxy = .init(method: method, user: user, password: password)
            case nil: break
            }
        }
        if negotiation != Negotiation() { result.negotiation = negotiation }
        return result
    }

    func easyHandle(_ handle: EasyHandle, didReceiveTunnelLine line: UnsafeRawBufferPointer) {
        exchange.response.tunnelAnswer.take(line)
    }

    /// The error of a proxy that does not connect to the server.
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
