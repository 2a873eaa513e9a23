import Foundation
import FoundationNetworking
import Synchronization

/// How a request is authorized.
package enum RequestAuthorization: Sendable {
    /// The value of `Authorization` or `Proxy-Authorization`, and the user and password that it is made from.
    case field(String, user: String, password: String)
    /// libcurl negotiates with several messages on one connection.
    case connection(AuthenticationMethod, user: String, password: String)
}

/// The properties of a request that its authorization depends on.
package struct AuthorizationTarget: Sendable {
    package let server: AuthenticatingServer
    package let method: String
    /// The request target (RFC 9112, section 3.2), as it is sent.
    package let uri: String
    /// Empty for a request without a body; nil if its bytes are not known before it is sent.
    package let body: Data?
    /// Whether the current thread may block, to look up Kerberos tickets.
    package let mayBlock: Bool
    /// Whether the request has an authorization of its own. It is then sent unchanged, until the server challenges it.
    package let hasOwn: Bool

    package init(server: AuthenticatingServer, method: String, uri: String, body: Data?, mayBlock: Bool, hasOwn: Bool) {
        (self.server, self.method, self.uri) = (server, method, uri)
        (self.body, self.mayBlock, self.hasOwn) = (body, mayBlock, hasOwn)
    }
}

/// Authorizes each request of a transfer, including those of redirects. Called on the network thread, which it must not
/// block.
package protocol RequestAuthorizer: AnyObject, Sendable {
    func authorization(for target: AuthorizationTarget) -> RequestAuthorization?
}

/// An authorizer as part of a configuration, compared by reference.
package struct AuthorizerReference: Sendable, Hashable {
    package let authorizer: any RequestAuthorizer

    package init(_ authorizer: any RequestAuthorizer) { self.authorizer = authorizer }

    package static func == (one: Self, other: Self) -> Bool { one.authorizer === other.authorizer }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(authorizer)) }
}

/// The sources of an operation's credentials.
package struct CredentialSource: Sendable {
    /// The operation's own credential, and the server that it is for.
    package var own: URLCredential?
    package var ownServer: AuthenticatingServer?
    /// The credentials of the configured proxies.
    package var ofProxies: [AuthenticatingServer: URLCredential] = [:]
    package var store: CredentialStore?

    package init() {}

    func credential(for space: ProtectionSpace, of server: AuthenticatingServer) -> URLCredential? {
        if server.isProxy {
            if let known = ofProxies[server] { return known }
        } else if let own, let ownServer, server.mayUseCredential(of: ownServer) {
            return own
        }
        return store?.credential(for: space)
    }
}

/// Which methods that authenticate a connection libcurl supports.
package enum ConnectionAuthentication {
    private static let methods = Atomic<UInt8>(0)

    /// Sets what libcurl supports. The transport calls it before its first request.
    package static func setSupported(ntlm: Bool, negotiate: Bool) {
        methods.store((ntlm ? 1 : 0) | (negotiate ? 2 : 0), ordering: .relaxed)
    }

    static func isSupported(_ method: AuthenticationMethod) -> Bool {
        let methods = methods.load(ordering: .relaxed)
        return method == .ntlm ? methods & 1 != 0 : method == .negotiate && methods & 2 != 0
    }
}
