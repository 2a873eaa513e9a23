import Convoy
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request headers that the options set.
struct Headers {
    private var serializer = HTTPRequestSerializer()
    private var fields: [String: String?] = [:]

    init(_ options: Options) throws(ToolError) {
        Self.setDefaults(&serializer)
        serializer.timeoutInterval = try options.seconds("timeout")
        do throws(ToolError) {
            for text in options.all("header") { try add(text) }
        } catch {
            throw options.usage(error.text)
        }
        if let agent = options.value("user-agent") {
            fields[Self.spelling(of: "User-Agent", in: fields) ?? "User-Agent"] = agent
        }
    }

    /// Returns these headers with further headers added.
    func adding(_ texts: [String]) throws(ToolError) -> Headers {
        var headers = self
        for text in texts { try headers.add(text) }
        return headers
    }

    /// The fields that the options set, each once.
    var list: [(name: String, value: String)] {
        fields.compactMap { field in field.value.map { (field.key, $0) } }.sorted { $0.name < $1.name }
    }

    /// Checks the syntax of a header.
    static func check(_ text: String) throws(ToolError) {
        guard text.contains(":") else {
            throw .usage("invalid header '\(Printable.line(text))': use 'Name: value'")
        }
        let (name, value) = parts(of: text)
        do {
            _ = try RequestHeader(fields: [name: value])
        } catch {
            throw .usage(ErrorText.line(for: error))
        }
    }

    static func parts(of text: String) -> (name: String, value: String) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let value = parts.count > 1 ? String(parts[1]) : ""
        return (String(parts[0]).trimmingCharacters(in: .whitespaces), value.trimmingCharacters(in: [" ", "\t"]))
    }

    private mutating func add(_ text: String) throws(ToolError) {
        try Self.check(text)
        let (name, value) = Self.parts(of: text)
        guard let other = Self.spelling(of: name, in: fields), let earlier = fields[other] ?? nil else {
            fields[name] = value
            return
        }
        guard let separator = Self.separator(for: name) else {
            throw .usage("the header '\(Printable.line(name))' is given twice, but is allowed only once")
        }
        fields[other] = earlier + separator + value
    }

    /// Sets the default headers. They include the program's name, but not the user's languages.
    static func setDefaults(_ serializer: inout HTTPRequestSerializer) {
        serializer.setValue(Program.userAgent, forHTTPHeaderField: "User-Agent")
        serializer.setValue(nil, forHTTPHeaderField: "Accept-Language")
    }

    /// Requests an unencoded body, unless `Accept-Encoding` is set, so that a file has exactly the bytes and length that the
    /// server announces.
    static func askForIdentity(_ fields: inout [String: String?]) {
        if spelling(of: "Accept-Encoding", in: fields) == nil { fields["Accept-Encoding"] = "identity" }
    }

    /// Returns the spelling of a name in the fields, ignoring case (RFC 9110, section 5.1).
    private static func spelling(of name: String, in fields: [String: String?]) -> String? {
        fields.keys.first { $0.lowercased() == name.lowercased() }
    }

    /// Returns the separator that joins the values of repeated fields to a list (RFC 9110, section 5.3), or nil for a field
    /// that is not a list.
    private static func separator(for name: String) -> String? {
        switch name.lowercased() {
        // Cookies are separated by semicolons (RFC 6265, section 5.4).
        case "cookie": "; "
        case "authorization", "content-length", "content-location", "content-type", "date", "from", "host",
            "if-modified-since", "if-range", "if-unmodified-since", "max-forwards", "origin", "proxy-authorization",
            "range", "referer", "user-agent":
            nil
        default: ", "
        }
    }

    /// Returns a GET request for the URL, without its user name and password. A header that cannot be sent is a usage error.
    func request(for url: URL) throws(ToolError) -> URLRequest {
        let url = try Login.taken(from: url)?.url ?? url
        do {
            return try serializer.request(method: .get, url: url, parameters: nil, headers: fields)
        } catch {
            throw .usage(ErrorText.line(for: error))
        }
    }
}

/// The user name and password of a URL, which are sent to its origin only.
struct Login {
    let user: String
    /// The password, or nil if the URL has only a user name.
    let password: String?

    /// Splits a URL into its login and the URL without the login, which can be requested. Returns nil if the URL has no
    /// login.
    ///
    /// - Throws: A usage error if the login is not UTF-8.
    static func taken(from url: URL) throws(ToolError) -> (login: Login, url: URL)? {
        let address = url.absoluteString
        guard let parts = URLUserInfo.parts(of: address) else { return nil }
        guard let user = String(validating: parts.user, as: UTF8.self),
            let rest = URL(string: URLUserInfo.removed(from: address))
        else { throw .usage("invalid URL '\(url.forPeople)': its user name or password is not UTF-8") }
        let password = try parts.password.map { bytes throws(ToolError) in
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw .usage("invalid URL '\(url.forPeople)': its user name or password is not UTF-8")
            }
            return text
        }
        return (Login(user: user, password: password), rest)
    }

    var credential: URLCredential { URLCredential(user: user, password: password ?? "", persistence: .forSession) }
}

/// Functions that parse URLs from the command line and from lists.
enum DownloadURL {
    /// Returns whether a string is a plain URL: http or https, a name in ASCII, and a path without percent-encoding. Most
    /// URLs are plain, and need no further parsing.
    static func isPlain(_ text: String) -> Bool {
        var rest = text.utf8[...]
        guard let scheme = ["https://", "http://"].first(where: { rest.starts(with: $0.utf8) }) else { return false }
        rest = rest.dropFirst(scheme.utf8.count)
        let host = rest.prefix { ASCII.isDigit($0) || ("a"..."z").contains(Unicode.Scalar($0)) || $0 == UInt8(ascii: ".") }
        // A host that begins with a digit may be an IP address.
        guard let first = host.first, !ASCII.isDigit(first), first != UInt8(ascii: "."), host.count <= 63,
            host.last != UInt8(ascii: "."), !text[host.startIndex..<host.endIndex].contains("..")
        else { return false }
        rest = rest[host.endIndex...]
        if rest.first == UInt8(ascii: ":") {
            let port = rest.dropFirst().prefix(while: ASCII.isDigit)
            guard (1...4).contains(port.count), port.first != UInt8(ascii: "0") else { return false }
            rest = rest[port.endIndex...]
        }
        guard let slash = rest.first else { return true }
        return slash == UInt8(ascii: "/") && rest.allSatisfy(plainBytes.contains)
    }

    private static let plainBytes = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/?=&,:+".utf8)

    /// Returns the URL of a string. A missing scheme defaults to https, or to http for this machine.
    static func parse(_ text: String) throws(ToolError) -> URL {
        let shown = Printable.line(Shown.url(text))
        guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
            throw .usage("invalid URL '\(shown)': it contains a control character")
        }
        guard let whole = withScheme(text) else {
            throw .usage("invalid URL '\(shown)': it must begin with http:// or https://")
        }
        let url = URLReference.url(whole)
        let address: HTTPAddress
        do throws(HTTPAddress.Problem) {
            address = try HTTPAddress.reading(url?.absoluteString ?? whole)
        } catch {
            if case .otherScheme = error { throw .usage("invalid URL '\(shown)': it must begin with http:// or https://") }
            throw .usage("invalid URL '\(shown)': the host is missing, or the host or port is invalid")
        }
        guard let url else {
            throw .usage("invalid URL '\(shown)': the host is missing, or the host or port is invalid")
        }
        guard address.target.port > 0 else { throw .usage("invalid URL '\(shown)': the port is invalid") }
        return url
    }

    /// Returns the string with a scheme, or nil if the scheme is malformed or cannot be followed by a host, for example
    /// `mailto`.
    private static func withScheme(_ text: String) -> String? {
        let lower = text.lowercased()
        for scheme in ["http", "https"] where lower.hasPrefix(scheme) {
            let rest = text.dropFirst(scheme.count)
            if rest.hasPrefix("://") { return text }
            // Browsers and curl accept `http:/host`. `http:80` has a port.
            if rest.hasPrefix(":/") { return "\(scheme)://\(rest.dropFirst().drop { $0 == "/" })" }
            if rest.hasPrefix("//") { return nil }
        }
        let scheme = lower.range(of: "://").map { lower[..<$0.lowerBound] } ?? ""
        // The scheme must precede the first slash, because a query may contain a URL.
        if !scheme.isEmpty, !scheme.contains(where: { "/?#".contains($0) }) { return text }
        if others.contains(where: { lower.hasPrefix($0 + ":") }) { return nil }
        let rest = text.hasPrefix("//") ? text.dropFirst(2) : text[...]
        let place = rest.prefix { !"/?#".contains($0) }
        let authority = place.split(separator: "@", omittingEmptySubsequences: false).last ?? ""
        let host = authority.hasPrefix("[") ? authority.prefix { $0 != "]" } + "]" : authority.prefix { $0 != ":" }
        let isLocal = HostName(String(host))?.isLoopback == true
        return "\(isLocal ? "http" : "https")://\(rest)"
    }

    /// The schemes that, before a colon, are never mistaken for a host name.
    private static let others = ["mailto", "magnet", "data", "file", "javascript", "tel", "urn", "about"]
}
