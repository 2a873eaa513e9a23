import ConvoySupport
import Foundation

/// A server through which requests travel, and what it must be told first.
///
/// An HTTP proxy is asked for plain `http` URLs by their whole URL, and for `https` by CONNECT for a tunnel, in which
/// TLS is spoken with the server (RFC 9110, sections 7.1 and 9.3.6). A SOCKS proxy carries both as they are (RFC 1928).
public struct Proxy: Sendable, Hashable {
    /// What is spoken with a proxy.
    public enum Kind: Sendable, Hashable {
        /// HTTP in plain text.
        case http
        /// HTTP over TLS, which `ConnectionConfiguration.proxySecurityPolicy` judges.
        case https
        /// SOCKS 5, and the proxy looks up the names of servers: `socks5h` to curl. The one to choose for SOCKS, as no
        /// name server on this side learns of the request.
        case socks5
        /// SOCKS 5 for addresses that were looked up here: `socks5` to curl.
        case socks5ResolvingHere
        /// SOCKS 4a: the proxy looks up the names.
        case socks4a
        /// SOCKS 4 for IPv4 addresses that were looked up here: `socks4` and `socks` to curl.
        case socks4

        /// The scheme of a proxy's URL as curl has it.
        var scheme: String {
            switch self {
            case .http: "http"
            case .https: "https"
            case .socks5: "socks5h"
            case .socks5ResolvingHere: "socks5"
            case .socks4a: "socks4a"
            case .socks4: "socks4"
            }
        }

        /// The kind that a scheme stands for; nil for other schemes.
        init?(scheme: String) {
            switch scheme.lowercased() {
            case "http": self = .http
            case "https": self = .https
            case "socks5h": self = .socks5
            case "socks5": self = .socks5ResolvingHere
            case "socks4a": self = .socks4a
            case "socks4", "socks": self = .socks4
            default: return nil
            }
        }

        /// Whether HTTP is spoken with the proxy itself.
        package var isHTTP: Bool { self == .http || self == .https }

        /// The port where none is given, as in curl.
        var defaultPort: Int { self == .https ? 443 : 1080 }
    }

    /// What is spoken with it.
    public let kind: Kind
    /// Its name or address; IPv6 without brackets, with its zone if it has one.
    public let host: String
    /// Its port.
    public let port: Int
    /// Who the client is to it; nil for nobody. It is never part of a text that describes the proxy.
    public let credential: ProxyCredential?

    /// A proxy.
    ///
    /// - Parameters:
    ///   - kind: what is spoken with it.
    ///   - host: a name or an address; IPv6 with or without brackets.
    ///   - port: 1080 if it is nil, and 443 for `https`, as in curl.
    ///   - credential: who the client is to it.
    /// - Throws: `URLError.badURL` for a host or a port that cannot be one, and for control characters in a credential.
    public init(_ kind: Kind, host: String, port: Int? = nil, credential: ProxyCredential? = nil) throws(URLError) {
        let bare = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        let address = "\(kind.scheme)://\(Self.authority(of: bare)):\(port ?? kind.defaultPort)"
        let parts = try Self.parts(of: address)
        // What ends the host of a URL may not be part of it.
        guard parts.host.lowercased() == bare.lowercased(), parts.credential == nil else {
            throw URLError(.badURL, url: nil, "The proxy's host \(Redaction.url(host).debugDescription) is not a host.")
        }
        try self.init(parts.kind, parts.host, parts.port, credential)
    }

    /// A proxy from text as curl takes it: `http://user:password@host:3128`, `socks5h://host`, `host:port`.
    ///
    /// Without a scheme it is `http`. The user and the password may be percent-encoded. `socks5://` looks names up
    /// here, and `socks5h://` leaves that to the proxy. A path is ignored.
    ///
    /// - Throws: `URLError.badURL` for what is not a URL, and `.unsupportedURL` for another scheme, and for SOCKS over a
    ///   Unix socket. Neither error repeats the text, as it may contain a password.
    public init(_ text: String) throws(URLError) {
        let parts = try Self.parts(of: text)
        try self.init(parts.kind, parts.host, parts.port, parts.credential)
    }

    private init(_ kind: Kind, _ host: String, _ port: Int, _ credential: ProxyCredential?) throws(URLError) {
        if let credential {
            // libcurl would go without the proxy, or send what another program reads as two lines.
            guard !(credential.user + credential.password).utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
                throw URLError(.badURL, url: nil, "The credential for the proxy contains a control character.")
            }
            // RFC 1929, section 2.
            guard kind.isHTTP || max(credential.user.utf8.count, credential.password.utf8.count) <= 255 else {
                throw URLError(.badURL, url: nil, "The credential for the proxy is longer than SOCKS allows (255 bytes).")
            }
        }
        self.kind = kind
        self.host = host
        self.port = port
        self.credential = credential
    }

    private init(_ proxy: Proxy, _ credential: ProxyCredential) {
        (kind, host, port, self.credential) = (proxy.kind, proxy.host, proxy.port, credential)
    }

    /// The same proxy for another user, if it speaks HTTP: then the credential is only sent in a header.
    func presenting(_ credential: ProxyCredential) -> Proxy { kind.isHTTP ? Proxy(self, credential) : self }

    /// A host in the form that it has in a URL.
    static func authority(of host: String) -> String {
        host.contains(":") ? "[\(host.replacingOccurrences(of: "%", with: "%25"))]" : host
    }
}

extension Proxy: CustomStringConvertible, CustomDebugStringConvertible {
    /// The proxy's URL without the credential.
    public var description: String { "\(kind.scheme)://\(Self.authority(of: host)):\(port)" }
    /// The same as `description`.
    public var debugDescription: String { description }
}
