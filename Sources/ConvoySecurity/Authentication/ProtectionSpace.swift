import ConvoySupport
import Foundation

/// Where a credential is valid: a realm of a server or of a proxy, and the method of authentication (RFC 9110, section
/// 11.5).
///
/// The counterpart of `URLProtectionSpace`, which cannot be used as a key: on Linux two of them with the same contents
/// are not equal.
public struct ProtectionSpace: Sendable, Hashable {
    /// The name or address of the server or the proxy: in lower case, an IPv6 address without its brackets, and
    /// a name of more than one word without a final dot.
    public let host: String
    /// The port of the server or the proxy.
    public let port: Int
    /// "http" or "https": the scheme of the server's URLs, or the protocol to the proxy.
    public let scheme: String
    /// Whether `host` is a proxy. A proxy's credentials are never sent to a server, nor a server's to a proxy.
    public let isProxy: Bool
    /// The realm of the challenge, case-sensitive; nil if it names none. In a ``CredentialStore`` nil stands for every
    /// realm.
    public let realm: String?
    /// The method of the challenge.
    public let method: AuthenticationMethod

    /// A protection space.
    ///
    /// - Parameters:
    ///   - host: a name or an address, as it is in a URL: case, brackets, and a final dot after more than one word make
    ///     no difference.
    ///   - port: the port, even if it is the default of the scheme.
    ///   - scheme: "http" or "https".
    ///   - realm: the realm of the challenge; nil for none, and in a ``CredentialStore`` for all.
    ///   - method: the method of the challenge.
    ///   - isProxy: whether `host` is a proxy.
    public init(
        host: String, port: Int, scheme: String, realm: String? = nil, method: AuthenticationMethod, isProxy: Bool = false
    ) {
        self.host = Self.normalized(host: host)
        self.port = port
        self.scheme = scheme.lowercased()
        self.realm = realm
        self.method = method
        self.isProxy = isProxy
    }

    /// The protection space of a URL's server, with the default port of the scheme if the URL has none.
    ///
    /// - Returns: nil if the URL is not one of HTTP or HTTPS with a host.
    public init?(url: URL, realm: String? = nil, method: AuthenticationMethod) {
        guard let space = AuthenticatingServer(url)?.space(realm: realm, method: method) else { return nil }
        self = space
    }

    /// The server or proxy without realm and method.
    var server: AuthenticatingServer { AuthenticatingServer(scheme: scheme, host: host, port: port, isProxy: isProxy) }

    /// The space that stands for all realms of the server or proxy in a ``CredentialStore``.
    var forAllRealms: ProtectionSpace {
        ProtectionSpace(host: host, port: port, scheme: scheme, realm: nil, method: method, isProxy: isProxy)
    }

    static func normalized(host: String) -> String {
        let text = HostName.withoutBrackets(host)
        // An IPv6 address keeps its zone, which identifies another machine.
        guard HostName.address(host) == nil else { return String(decoding: text.utf8.map(ASCII.lowercased), as: UTF8.self) }
        let name = HostName.spelling(of: String(text))
        // A name of one word is another host without its final dot, as resolvers then try the local domain first.
        return text.utf8.last == UInt8(ascii: ".") && !name.contains(".") ? name + "." : name
    }
}

extension ProtectionSpace: CustomStringConvertible {
    /// The method, the realm in quotes and the address, with control characters escaped. It contains no secrets.
    public var description: String {
        let address = Redaction.text(server.description).debugDescription.dropFirst().dropLast()
        let place = "\(isProxy ? "the proxy " : "")\(address)"
        return realm.map { "\(method.rawValue) \($0.debugDescription) at \(place)" } ?? "\(method.rawValue) at \(place)"
    }
}

/// A scheme of HTTP authentication (RFC 9110, section 11.1), by which a client authenticates its user to a server or a
/// proxy.
///
/// The raw value is the name of the scheme in lower case.
public enum AuthenticationMethod: String, Sendable, Hashable, CaseIterable {
    /// User name and password in clear text (RFC 7617). Use it only over TLS, as the request reveals both.
    case basic
    /// A token that serves as a password (RFC 6750).
    case bearer
    /// A hash of the password and a nonce of the server (RFC 7616). The password itself is not sent.
    case digest
    /// Microsoft's NTLM, which authenticates a connection.
    case ntlm
    /// Kerberos, or NTLM, by SPNEGO (RFC 4559).
    case negotiate
}

/// A server or a proxy that may require authentication.
package struct AuthenticatingServer: Sendable, Hashable {
    /// The protocol to the server or the proxy: `http` or `https`.
    package let scheme: String
    /// Normalized as in a ``ProtectionSpace``.
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

    /// A protection space of the server.
    package func space(realm: String?, method: AuthenticationMethod) -> ProtectionSpace {
        ProtectionSpace(host: host, port: port, scheme: scheme, realm: realm, method: method, isProxy: isProxy)
    }

    /// Whether a credential for another server may be used here: if it is the same server, or if it is the other's
    /// counterpart over TLS, both at the standard ports.
    package func mayUseCredential(of other: AuthenticatingServer) -> Bool {
        if self == other { return true }
        return self == AuthenticatingServer(scheme: "https", host: other.host, port: 443)
            && other == AuthenticatingServer(scheme: "http", host: host, port: 80)
    }
}

extension AuthenticatingServer: CustomStringConvertible {
    /// The scheme, host and port, in the form of a URL.
    package var description: String { "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(port)" }
}
