import ConvoySupport
import Foundation

/// A server, or a proxy, that may ask who the client is.
package struct AuthenticatingServer: Sendable, Hashable {
    /// `http` or `https`: what is spoken with it.
    package let scheme: String
    /// As in a protection space.
    package let host: String
    package let port: Int
    package let isProxy: Bool

    package init(scheme: String, host: String, port: Int, isProxy: Bool = false) {
        self.scheme = scheme.lowercased()
        self.host = ProtectionSpace.normalized(host: host)
        self.port = port
        self.isProxy = isProxy
    }

    /// The server of a URL, with the usual port of the scheme if the URL has none: its origin (RFC 6454); nil if it is not
    /// one of HTTP or HTTPS with a host.
    package init?(_ url: URL) {
        guard let target = Target(url) else { return nil }
        self.init(target)
    }

    /// The server of a request.
    package init(_ target: Target) { self.init(scheme: target.scheme, host: target.bareHost, port: target.port) }

    /// One of its protection spaces.
    package func space(realm: String?, method: AuthenticationMethod) -> ProtectionSpace {
        ProtectionSpace(host: host, port: port, scheme: scheme, realm: realm, method: method, isProxy: isProxy)
    }

    /// Whether a credential for another server may be used here: for the same one, or where the other was asked over
    /// plain text and this is its counterpart over TLS, at the standard ports.
    package func mayUseCredential(of other: AuthenticatingServer) -> Bool {
        if self == other { return true }
        return self == AuthenticatingServer(scheme: "https", host: other.host, port: 443)
            && other == AuthenticatingServer(scheme: "http", host: host, port: 80)
    }
}

extension AuthenticatingServer: CustomStringConvertible {
    /// As the beginning of a URL.
    package var description: String { "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(port)" }
}
