import CCurl
import ConvoySupport
import Foundation

/// A proxy server through which requests are sent, and the client's credential for it.
///
/// An HTTP proxy is asked for plain `http` URLs by their whole URL, and for `https` by CONNECT for a tunnel, in which
/// TLS is spoken with the server (RFC 9110, sections 7.1 and 9.3.6). A SOCKS proxy carries both as they are (RFC 1928).
public struct Proxy: Sendable, Hashable {
    /// The protocol of a proxy.
    public enum Kind: Sendable, Hashable {
        /// HTTP in plain text.
        case http
        /// HTTP over TLS; `ConnectionConfiguration.proxySecurityPolicy` decides about trust.
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

        /// Whether the proxy speaks HTTP.
        package var isHTTP: Bool { self == .http || self == .https }

        /// The port where none is given, as in curl.
        var defaultPort: Int { self == .https ? 443 : 1080 }
    }

    /// The protocol.
    public let kind: Kind
    /// The name or address of the proxy; IPv6 without brackets, with its zone if it has one.
    public let host: String
    /// The port of the proxy.
    public let port: Int
    /// The client's credential for it; nil for none. No description of the proxy contains it.
    public let credential: ProxyCredential?

    /// A proxy.
    ///
    /// - Parameters:
    ///   - kind: the protocol.
    ///   - host: a name or an address; IPv6 with or without brackets.
    ///   - port: 1080 if it is nil, and 443 for `https`, as in curl.
    ///   - credential: the client's credential for it.
    /// - Throws: `URLError.badURL` for a host or a port that cannot be one, and for control characters in a credential.
    public init(_ kind: Kind, host: String, port: Int? = nil, credential: ProxyCredential? = nil) throws(URLError) {
        let bare = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        let address = "\(kind.scheme)://\(Self.authority(of: bare)):\(port ?? kind.defaultPort)"
        let parts = try Self.parts(of: address)
        // The host must not contain what ends the host of a URL.
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
            // libcurl would skip the proxy, or send what other programs read as two lines.
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

    /// The same proxy with another user's credential, if it speaks HTTP, where the credential is only a header field.
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

/// Parses and formats proxies as libcurl does.
extension Proxy {
    struct Parts {
        var kind: Kind
        var host: String
        var port: Int
        var credential: ProxyCredential?
    }

    /// The parts of a proxy's URL, by libcurl's own parser, with its defaults.
    static func parts(of text: String) throws(URLError) -> Parts {
        // libcurl guesses another scheme for a host such as `ftp.example.com`, and then refuses it.
        let address = text.contains("://") ? text : "http://\(text)"
        guard !address.utf8.contains(0), let url = curl_url() else {
            throw URLError(.badURL, url: nil, "The proxy is not a URL.")
        }
        defer { curl_url_cleanup(url) }
        guard curl_url_set(url, CURLUPART_URL, address, UInt32(CURLU_NON_SUPPORT_SCHEME)) == CURLUE_OK,
            let scheme = part(CURLUPART_SCHEME, of: url), let encoded = part(CURLUPART_HOST, of: url), !encoded.isEmpty
        else { throw URLError(.badURL, url: nil, "The proxy is not a URL.") }
        guard let kind = Kind(scheme: scheme) else {
            throw URLError(.unsupportedURL, url: nil, "The proxy has the scheme \(scheme), which is not one of a proxy.")
        }
        // ASCII letters only, as in a target.
        var host = String(decoding: encoded.utf8.map(ASCII.lowercased), as: UTF8.self)
        if host.first == "[", host.last == "]" { host = String(host.dropFirst().dropLast()) }
        if host.contains(":"), !host.contains("%"), let zone = part(CURLUPART_ZONEID, of: url) { host += "%\(zone)" }
        if !kind.isHTTP, host == "localhost", let path = part(CURLUPART_PATH, of: url), path.utf8.count > 1 {
            throw URLError(.unsupportedURL, url: nil, "A SOCKS proxy on a Unix socket is not supported.")
        }
        var port = kind.defaultPort
        if let text = part(CURLUPART_PORT, of: url) {
            guard let number = Int(text), (1...65535).contains(number) else {
                throw URLError(.badURL, url: nil, "The proxy's port is not from 1 to 65535.")
            }
            port = number
        }
        return Parts(kind: kind, host: host, port: port, credential: try credential(in: url))
    }

    private static func credential(in url: OpaquePointer) throws(URLError) -> ProxyCredential? {
        let parts = try [CURLUPART_USER, CURLUPART_PASSWORD].map { name throws(URLError) -> String? in
            guard let text = part(name, of: url) else { return nil }
            guard let decoded = text.removingPercentEncoding else {
                throw URLError(.badURL, url: nil, "The credential in the proxy's URL is not UTF-8.")
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

    /// The proxy for `CURLOPT_PROXY`. For SOCKS it contains the credential: libcurl 7.88 decodes its separate options
    /// for user and password, and 8.14 does not. For HTTP the credential is sent as a header field.
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

/// The user and the password of a client at a proxy. No description contains them.
public struct ProxyCredential: Sendable, Hashable {
    /// The user's name.
    public let user: String
    /// The password; empty if there is none.
    public let password: String

    /// A user and a password.
    public init(user: String, password: String) {
        self.user = user
        self.password = password
    }

    /// Whether both have the same bytes. (`==` of `String` takes some texts for equal that proxies distinguish.)
    public static func == (one: ProxyCredential, other: ProxyCredential) -> Bool {
        one.user.isExactly(other.user) && one.password.isExactly(other.password)
    }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(ExactString(user))
        hasher.combine(ExactString(password))
    }

    /// The value of `Proxy-Authorization` for the `Basic` scheme (RFC 7617, section 2).
    var basicAuthorization: String { "Basic \(Data("\(user):\(password)".utf8).base64EncodedString())" }
}

extension ProxyCredential: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// A placeholder.
    public var description: String { "<credential>" }
    /// The same as `description`.
    public var debugDescription: String { description }
    /// Empty, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
