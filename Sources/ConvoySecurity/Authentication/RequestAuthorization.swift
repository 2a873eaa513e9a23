import Foundation

/// How a request says who the client is.
package enum RequestAuthorization: Sendable {
    /// The value of `Authorization`, or of `Proxy-Authorization`, and for whom it speaks.
    case field(String, user: String, password: String)
    /// libcurl negotiates, over several messages on one connection.
    case connection(AuthenticationMethod, user: String, password: String)
}

/// A request that is about to be sent, as far as it matters for its authorization.
package struct AuthorizationTarget: Sendable {
    package let server: AuthenticatingServer
    package let method: String
    /// The request target (RFC 9112, section 3.2), as it is sent.
    package let uri: String
    /// Empty for a request without a body; nil where its bytes are not known before it is sent.
    package let body: Data?
    /// Whether it runs on a thread that a look-up of tickets may block.
    package let mayBlock: Bool
    /// Whether the request says of itself who the client is. Then it is sent so, until the server asks for something else.
    package let hasOwn: Bool

    package init(server: AuthenticatingServer, method: String, uri: String, body: Data?, mayBlock: Bool, hasOwn: Bool) {
        (self.server, self.method, self.uri) = (server, method, uri)
        (self.body, self.mayBlock, self.hasOwn) = (body, mayBlock, hasOwn)
    }
}

/// Says for each request of a transfer, its redirects too, who the client is. Asked on the network thread, which it
/// must not block.
package protocol RequestAuthorizer: AnyObject, Sendable {
    func authorization(for target: AuthorizationTarget) -> RequestAuthorization?
}

/// An authorizer as part of a configuration: two are equal if they are one.
package struct AuthorizerReference: Sendable, Hashable {
    package let authorizer: any RequestAuthorizer

    package init(_ authorizer: any RequestAuthorizer) { self.authorizer = authorizer }

    package static func == (one: Self, other: Self) -> Bool { one.authorizer === other.authorizer }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(authorizer)) }
}
