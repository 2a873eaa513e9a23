import ConvoySupport
import Foundation

/// Functions that parse URLs from the command line and from lists.
enum DownloadURL {
    /// Returns whether a string is a plain URL: http or https, a lowercase name in ASCII or an IPv4 address, and a path in
    /// which nothing must be changed or encoded. Most URLs are plain, and need no further parsing.
    static func isPlain(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { isPlain($0) }
    }

    static func isPlain(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let authority = SimpleURLAuthority(bytes), authority.port > 0 else { return false }
        var last = UInt8(ascii: "/")
        for byte in bytes[authority.end...] {
            // A segment that begins with a dot may have to be removed.
            guard isPlain(byte), byte != UInt8(ascii: ".") || last != UInt8(ascii: "/") else { return false }
            last = byte
        }
        return true
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            // The digits, and "&+,-./:;=?_~".
            UInt8(ascii: "+")...UInt8(ascii: ";"), UInt8(ascii: "&"), UInt8(ascii: "="), UInt8(ascii: "?"),
            UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// Returns the URL of a string. A missing scheme defaults to https, or to http for this machine.
    ///
    /// - Parameter keepsDotSegments: Whether dot segments in the path are kept.
    static func parse(_ text: String, keepingDotSegments keepsDotSegments: Bool = false) throws(ToolError) -> URL {
        if isPlain(text), let url = URL(string: text) { return url }
        var shown: String { Printable.line(Shown.url(text)) }
        guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
            throw .usage("invalid URL '\(shown)': it contains a control character")
        }
        guard let whole = withScheme(text) else {
            throw .usage("invalid URL '\(shown)': it must begin with http:// or https://")
        }
        let url = URLReference.url(whole, keepingDotSegments: keepsDotSegments)
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
        // A relative path, or the dash that stands for standard input elsewhere.
        guard address.target.host.contains(where: { $0 != "." && $0 != "-" }) else {
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

extension Options {
    /// Whether dot segments in the paths of URLs are sent as written.
    var keepsDotSegments: Bool { has("path-as-is") }

    /// Returns the URL of a string that the user has given. See ``DownloadURL/parse(_:keepingDotSegments:)``.
    func url(_ text: String) throws(ToolError) -> URL {
        try DownloadURL.parse(text, keepingDotSegments: keepsDotSegments)
    }
}
