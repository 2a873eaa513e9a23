import ConvoySupport
import Foundation

/// Where a credential is valid: a realm of a server or of a proxy, and the method by which it is asked for (RFC 9110,
/// section 11.5).
///
/// The counterpart of `URLProtectionSpace`, which cannot be used as a key: on Linux two of them with the same contents
/// are not equal.
public struct ProtectionSpace: Sendable, Hashable {
    /// The name or address of the server or the proxy: in lower case, an IPv6 address without its brackets, and
    /// a name of more than one word without a final dot.
    public let host: String
    /// The port of the server or the proxy.
    public let port: Int
    /// "http" or "https", in lower case: that of the server's URLs, or what is spoken with the proxy.
    public let scheme: String
    /// Whether `host` is a proxy. Its credentials are never sent to a server, nor a server's to it.
    public let isProxy: Bool
    /// What the server calls the protected part of it, in the same letters; nil if it has no name. In a
    /// ``CredentialStore`` nil stands for every realm.
    public let realm: String?
    /// How the server asks for the credential.
    public let method: AuthenticationMethod

    /// A protection space.
    ///
    /// - Parameters:
    ///   - host: a name or an address, as it is in a URL: case, brackets, and a final dot after more than one word make
    ///     no difference.
    ///   - port: the port, also if it is the usual one of the scheme.
    ///   - scheme: "http" or "https".
    ///   - realm: the realm of the challenge; nil for none, and in a ``CredentialStore`` for all.
    ///   - method: how the credential is asked for.
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

    /// The protection space of a server that a URL names, with the usual port of the scheme if the URL has none.
    ///
    /// - Returns: nil if the URL is not one of HTTP or HTTPS with a host.
    public init?(url: URL, realm: String? = nil, method: AuthenticationMethod) {
        guard let space = AuthenticatingServer(url)?.space(realm: realm, method: method) else { return nil }
        self = space
    }

    /// The server or proxy without realm and method.
    var server: AuthenticatingServer { AuthenticatingServer(scheme: scheme, host: host, port: port, isProxy: isProxy) }

    /// The space that stands for all realms of the server or proxy.
    var forAllRealms: ProtectionSpace {
        ProtectionSpace(host: host, port: port, scheme: scheme, realm: nil, method: method, isProxy: isProxy)
    }

    static func normalized(host: String) -> String {
        var text = Substring(host)
        if text.hasPrefix("["), text.hasSuffix("]") { text = text.dropFirst().dropLast() }
        // A name of one word with a dot may be another host than without: that one is looked for in the own domain first.
        if text.hasSuffix("."), text.dropLast().contains(".") { text = text.dropLast() }
        // ASCII's letters only: there are others that have one of them as their small letter.
        return String(decoding: text.utf8.map(ASCII.lowercased), as: UTF8.self)
    }
}

extension ProtectionSpace: CustomStringConvertible {
    /// The method, the realm in quotes and the address, with escapes in place of control characters. There is nothing
    /// secret in it.
    public var description: String {
        let address = Redaction.text(server.description).debugDescription.dropFirst().dropLast()
        let place = "\(isProxy ? "the proxy " : "")\(address)"
        return realm.map { "\(method.rawValue) \($0.debugDescription) at \(place)" } ?? "\(method.rawValue) at \(place)"
    }
}
