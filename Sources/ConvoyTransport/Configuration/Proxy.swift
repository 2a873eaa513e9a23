import CCurl
import ConvoySupport
import Foundation

/// A proxy server through which requests are sent, and the credential for it.
///
/// For `http` URLs, an HTTP proxy receives requests with the complete URL. For `https` URLs, it opens a tunnel with
/// CONNECT, in which TLS is established with the server (RFC 9110, sections 7.1 and 9.3.6). A SOCKS proxy forwards both
/// unchanged (RFC 1928).
public struct Proxy: Sendable, Hashable {
    /// The protocol of a proxy.
    public enum Kind: Sendable, Hashable {
        /// HTTP in plain text.
        case http
        /// HTTP over TLS. `ConnectionConfiguration.proxySecurityPolicy` determines trust.
        case https
        /// SOCKS 5 with name resolution by the proxy: `socks5h` in curl. This kind is recommended for SOCKS, because
        /// the host is not sent to a local name server.
        case socks5
        /// SOCKS 5 with local name resolution: `socks5` in curl.
        case socks5ResolvingHere
        /// SOCKS 4a, with name resolution by the proxy.
        case socks4a
        /// SOCKS 4 with local name resolution, for IPv4 addresses: `socks4` and `socks` in curl.
        case socks4

        /// The scheme of a proxy URL in curl.
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

        /// Creates the kind for a scheme; nil for other schemes.
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

        /// Whether the proxy uses HTTP.
        package var isHTTP: Bool { self == .http || self == .https }

        /// The default port, as in curl.
        var defaultPort: Int { self == .https ? 443 : 1080 }
    }

    /// The protocol of the proxy.
    public let kind: Kind
    /// The name or address of the proxy. IPv6 addresses have no brackets, but may have a zone.
    public let host: String
    /// The port of the proxy.
    public let port: Int
    /// The credential for the proxy; nil for none. It is not included in any description of the proxy.
    public let credential: ProxyCredential?

    /// Creates a proxy.
    ///
    /// - Parameters:
    ///   - kind: The protocol.
    ///   - host: A name or an address; IPv6 with or without brackets.
    ///   - port: The port; nil for 443 with `https` and 1080 otherwise, as in curl.
    ///   - credential: The credential for the proxy.
    /// - Throws: `URLError.badURL` for an invalid host or port, and for control characters in a credential.
    public init(_ kind: Kind, host: String, port: Int? = nil, credential: ProxyCredential? = nil) throws(URLError) {
        let bare = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        let address = "\(kind.scheme)://\(Self.authority(of: bare)):\(port ?? kind.defaultPort)"
        let parts = try Self.parts(of: address)
        // The host must not contain characters that end the host of a URL.
        guard parts.host.lowercased() == bare.lowercased(), parts.credential == nil else {
            throw URLError(.badURL, url: nil, "Invalid proxy host: \(Redaction.url(host).debugDescription).")
        }
        try self.init(parts.kind, parts.host, parts.port, credential)
    }

    /// Creates a proxy from a string in curl's format: `http://user:password@host:3128`, `socks5h://host`, `host:port`.
    ///
    /// The scheme defaults to `http`. The user and the password may be percent-encoded. `socks5://` resolves names
    /// locally; with `socks5h://`, the proxy resolves them. A path is ignored.
    ///
    /// - Throws: `URLError.badURL` if the text is not a URL, and `.unsupportedURL` for an unsupported scheme and for
    ///   SOCKS over a Unix socket. The errors do not repeat the text, which may contain a password.
    public init(_ text: String) throws(URLError) {
        let parts = try Self.parts(of: text)
        try self.init(parts.kind, parts.host, parts.port, parts.credential)
    }

    private init(_ kind: Kind, _ host: String, _ port: Int, _ credential: ProxyCredential?) throws(URLError) {
        if let credential {
            // libcurl would skip the proxy, or send text that other programs read as two lines.
            guard !(credential.user + credential.password).utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
                throw URLError(.badURL, url: nil, "The proxy credential contains a control character.")
            }
            // RFC 1929, section 2, limits the user and the password to 255 bytes each.
            guard kind.isHTTP || max(credential.user.utf8.count, credential.password.utf8.count) <= 255 else {
                throw URLError(.badURL, url: nil, "The proxy credential exceeds the SOCKS limit of 255 bytes.")
            }
        }
        self.kind = kind
        self.host = host
        self.port = port
        self.credential = credential
    }

    private init(_ proxy: Proxy, _ credential: ProxyCredential) {
        kind = proxy.kind
        host = proxy.host
        port = proxy.port
        self.credential = credential
    }

    /// Returns the same proxy with another user's credential if it uses HTTP, where the credential is only a header
    /// field.
    func presenting(_ credential: ProxyCredential) -> Proxy { kind.isHTTP ? Proxy(self, credential) : self }

    /// Returns a host in the form used in URLs.
    static func authority(of host: String) -> String {
        host.contains(":") ? "[\(host.replacingOccurrences(of: "%", with: "%25"))]" : host
    }
}

extension Proxy: CustomStringConvertible {
    /// The proxy's URL without the credential.
    public var description: String { "\(kind.scheme)://\(Self.authority(of: host)):\(port)" }
}

/// Parsing and formatting proxies as libcurl does.
extension Proxy {
    struct Parts {
        var kind: Kind
        var host: String
        var port: Int
        var credential: ProxyCredential?
    }

    /// Returns the parts of a proxy URL, parsed by libcurl with its defaults.
    static func parts(of text: String) throws(URLError) -> Parts {
        // libcurl would guess a different scheme for a host such as `ftp.example.com`, and then reject it.
        let address = text.contains("://") ? text : "http://\(text)"
        guard !address.utf8.contains(0), let url = curl_url() else {
            throw URLError(.badURL, url: nil, "Invalid proxy URL: use a form such as http://host:3128.")
        }
        defer { curl_url_cleanup(url) }
        guard curl_url_set(url, CURLUPART_URL, address, UInt32(CURLU_NON_SUPPORT_SCHEME)) == CURLUE_OK,
            let scheme = part(CURLUPART_SCHEME, of: url), let encoded = part(CURLUPART_HOST, of: url), !encoded.isEmpty
        else { throw URLError(.badURL, url: nil, "Invalid proxy URL: use a form such as http://host:3128.") }
        guard let kind = Kind(scheme: scheme) else {
            throw URLError(.unsupportedURL, url: nil, "Unsupported proxy scheme: \(scheme).")
        }
        // Lowercase only ASCII letters, as in a target.
        var host = String(decoding: encoded.utf8.map(ASCII.lowercased), as: UTF8.self)
        if host.first == "[", host.last == "]" { host = String(host.dropFirst().dropLast()) }
        if host.contains(":"), !host.contains("%"), let zone = part(CURLUPART_ZONEID, of: url) { host += "%\(zone)" }
        if !kind.isHTTP, host == "localhost", let path = part(CURLUPART_PATH, of: url), path.utf8.count > 1 {
            throw URLError(.unsupportedURL, url: nil, "SOCKS proxies on Unix sockets are not supported.")
        }
        var port = kind.defaultPort
        if let text = part(CURLUPART_PORT, of: url) {
            guard let number = Int(text), (1...65535).contains(number) else {
                throw URLError(.badURL, url: nil, "The proxy port must be between 1 and 65535.")
            }
            port = number
        }
        return Parts(kind: kind, host: host, port: port, credential: try credential(in: url))
    }

    private static func credential(in url: OpaquePointer) throws(URLError) -> ProxyCredential? {
        let parts = try [CURLUPART_USER, CURLUPART_PASSWORD].map { name throws(URLError) -> String? in
            guard let text = part(name, of: url) else { return nil }
            guard let decoded = text.removingPercentEncoding else {
                throw URLError(.badURL, url: nil, "The credential in the proxy URL is not valid UTF-8.")
            }
            return decoded
        }
        guard parts[0] != nil || parts[1] != nil else { return nil }
        return ProxyCredential(user: parts[0] ?? "", password: parts[1] ?? "")
    }

    private static func part(_ part: CURLUPart, of url: OpaquePointer) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(url, part, &text, 0) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    /// The proxy for `CURLOPT_PROXY`. For SOCKS, it contains the credential, because libcurl 7.88 decodes the separate
    /// options for user and password, and 8.14 does not. For HTTP, the credential is sent as a header field.
    var libcurlText: String {
        guard !kind.isHTTP, let credential else { return description }
        func encoded(_ text: String) -> String {
            text.utf8.map { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    String(UnicodeScalar(byte))
                default: "%" + String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
                }
            }.joined()
        }
        return
            "\(kind.scheme)://\(encoded(credential.user)):\(encoded(credential.password))@\(Self.authority(of: host)):\(port)"
    }

    /// The value of `Proxy-Authorization` for requests to this proxy; nil for none.
    var authorization: String? { kind.isHTTP ? credential?.basicAuthorization : nil }
}

/// The user and password for a proxy. They are not included in any description.
public struct ProxyCredential: Sendable, Hashable {
    /// The user's name.
    public let user: String
    /// The password, which may be empty.
    public let password: String

    /// Creates a credential from a user and a password.
    public init(user: String, password: String) {
        self.user = user
        self.password = password
    }

    /// Returns whether both have the same bytes. (`==` of `String` treats some strings as equal that proxies
    /// distinguish.)
    public static func == (one: ProxyCredential, other: ProxyCredential) -> Bool {
        one.user.isExactly(other.user) && one.password.isExactly(other.password)
    }

    /// Hashes the bytes, consistent with `==`.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(ExactString(user))
        hasher.combine(ExactString(password))
    }

    /// The value of `Proxy-Authorization` for the `Basic` scheme (RFC 7617, section 2).
    var basicAuthorization: String { "Basic \(Data("\(user):\(password)".utf8).base64EncodedString())" }
}

extension ProxyCredential: CustomStringConvertible, OpaqueReflectable {
    /// A placeholder, without the user and the password.
    public var description: String { "<credential>" }
}
