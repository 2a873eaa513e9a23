import ConvoySupport
import Foundation

/// The scope in which a credential is valid: a realm of a server or proxy, and the authentication method (RFC 9110,
/// section 11.5).
///
/// The counterpart of `URLProtectionSpace`, which cannot be used as a key: on Linux, two instances with the same
/// contents are not equal.
public struct ProtectionSpace: Sendable, Hashable {
    /// The name or address of the server or proxy, in lower case. IPv6 addresses have no brackets, and names of more
    /// than one label have no trailing dot.
    public let host: String
    /// The port of the server or the proxy.
    public let port: Int
    /// "http" or "https": the scheme of the server's URLs, or the protocol to the proxy.
    public let scheme: String
    /// Whether `host` is a proxy. Credentials for proxies are never sent to servers, and vice versa.
    public let isProxy: Bool
    /// The realm of the challenge, case-sensitive; nil if the challenge has no realm. In a ``CredentialStore``, nil
    /// matches every realm.
    public let realm: String?
    /// The method of the challenge.
    public let method: AuthenticationMethod

    /// Creates a protection space.
    ///
    /// - Parameters:
    ///   - host: A name or an address, as in a URL. Case, brackets, and a trailing dot after more than one label are
    ///     ignored.
    ///   - port: The port, even if it is the scheme's default.
    ///   - scheme: "http" or "https".
    ///   - realm: The realm of the challenge; nil for no realm, or for all realms in a ``CredentialStore``.
    ///   - method: The method of the challenge.
    ///   - isProxy: Whether `host` is a proxy.
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

    /// Creates the protection space of a URL's server. A missing port defaults to that of the scheme.
    ///
    /// - Returns: nil if the URL is not an HTTP or HTTPS URL with a host.
    public init?(url: URL, realm: String? = nil, method: AuthenticationMethod) {
        guard let space = AuthenticatingServer(url)?.space(realm: realm, method: method) else { return nil }
        self = space
    }

    /// The server or proxy, without the realm and the method.
    var server: AuthenticatingServer { AuthenticatingServer(scheme: scheme, host: host, port: port, isProxy: isProxy) }

    /// The space that represents all realms of the server or proxy in a ``CredentialStore``.
    var forAllRealms: ProtectionSpace {
        ProtectionSpace(host: host, port: port, scheme: scheme, realm: nil, method: method, isProxy: isProxy)
    }

    static func normalized(host: String) -> String {
        let text = HostName.withoutBrackets(host)
        // An IPv6 address keeps its zone, because a different zone denotes a different machine.
        guard HostName.address(host) == nil else { return String(decoding: text.utf8.map(ASCII.lowercased), as: UTF8.self) }
        let name = HostName.spelling(of: String(text))
        // For a single-label name, the trailing dot matters: without it, resolvers try the local domain first.
        return text.utf8.last == UInt8(ascii: ".") && !name.contains(".") ? name + "." : name
    }
}

extension ProtectionSpace: CustomStringConvertible {
    /// The method, the realm in quotes and the address, with control characters escaped. The description contains no
    /// secrets.
    public var description: String {
        let address = Redaction.text(server.description).debugDescription.dropFirst().dropLast()
        let place = "\(isProxy ? "the proxy " : "")\(address)"
        return realm.map { "\(method.rawValue) \($0.debugDescription) at \(place)" } ?? "\(method.rawValue) at \(place)"
    }
}

/// An HTTP authentication scheme (RFC 9110, section 11.1), which authenticates a user to a server or a proxy.
///
/// The raw value is the name of the scheme in lower case.
public enum AuthenticationMethod: String, Sendable, Hashable, CaseIterable {
    /// The user name and password in clear text (RFC 7617). Use Basic only over TLS, because the request reveals both.
    case basic
    /// A bearer token (RFC 6750).
    case bearer
    /// A hash of the password and a server nonce (RFC 7616). The password itself is not sent.
    case digest
    /// Microsoft's NTLM, which authenticates a connection.
    case ntlm
    /// Kerberos or NTLM through SPNEGO (RFC 4559).
    case negotiate
}

/// A server or a proxy that may require authentication.
package struct AuthenticatingServer: Sendable, Hashable {
    /// The protocol to the server or the proxy: `http` or `https`.
    package let scheme: String
    /// The host, normalized as in a ``ProtectionSpace``.
    package let host: String
    package let port: Int
    package let isProxy: Bool

    package init(scheme: String, host: String, port: Int, isProxy: Bool = false) {
        self.scheme = scheme.lowercased()
        self.host = ProtectionSpace.normalized(host: host)
        self.port = port
        self.isProxy = isProxy
    }

    /// Creates the origin (RFC 6454) of a URL, with the scheme's default port if the URL has no port. Returns nil if
    /// the URL is not an HTTP or HTTPS URL with a host.
    package init?(_ url: URL) {
        guard let target = Target(url) else { return nil }
        self.init(target)
    }

    /// Creates a server from the target of a request.
    package init(_ target: Target) { self.init(scheme: target.scheme, host: target.bareHost, port: target.port) }

    /// Returns a protection space of the server.
    package func space(realm: String?, method: AuthenticationMethod) -> ProtectionSpace {
        ProtectionSpace(host: host, port: port, scheme: scheme, realm: realm, method: method, isProxy: isProxy)
    }

    /// Returns whether a credential for another server may be used for this server: if both are the same, or if this
    /// server is the other's counterpart over TLS and both use the standard ports.
    package func mayUseCredential(of other: AuthenticatingServer) -> Bool {
        if self == other { return true }
        return SecretScope(of: Target(other.description)).includesUpgrade(to: Target(description))
    }
}

extension AuthenticatingServer: CustomStringConvertible {
    /// The scheme, host and port, in the form of a URL.
    package var description: String { "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(port)" }
}
