import Foundation

/// The scheme, host and port of an http or https URL. They determine encryption, pins, proxies, cookies, caching and
/// credentials.
///
/// A URL is parsed once, on entry, and all spellings of a target are equal: `HTTP://%45xample.COM:080` and
/// `http://example.com`. No other code compares URLs as strings, because a URL can be written in several ways. Names
/// that may lead to the same server, for example `example.com` and `example.com.`, are different targets.
package struct Target: Sendable, Hashable {
    /// Whether the scheme is https.
    package let isSecure: Bool
    /// The host as it is sent: a lowercase ASCII name, an IPv4 address in dotted decimal, or an IPv6 address in its
    /// shortest form and in brackets.
    package let host: String
    /// The port, including the default port if the URL specifies none.
    package let port: Int
    /// The zone of an IPv6 address, which is not sent (RFC 6874); nil if it has none.
    package let zone: String?

    /// Creates the target of a URL given as a string. Returns nil if the scheme is not http or https, or if the
    /// authority is invalid or has no host.
    package init?(_ address: String) {
        if let plain = Target(plain: address) {
            self = plain
        } else if let target = try? HTTPAddress.reading(address).target {
            self = target
        } else {
            return nil
        }
    }

    /// Creates the target of a `URL`. Returns nil under the same conditions as for a string.
    package init?(_ url: URL) { self.init(url.absoluteString) }

    /// Returns whether both URLs have the same target: scheme, host and port (RFC 6454, section 5).
    package static func isSame(_ one: URL?, _ other: URL?) -> Bool {
        guard let one = one.flatMap({ Target($0) }), let other = other.flatMap({ Target($0) }) else { return false }
        return one == other
    }

    fileprivate init(isSecure: Bool, host: String, port: Int, zone: String? = nil) {
        self.isSecure = isSecure
        self.host = host
        self.port = port
        self.zone = zone
    }

    // MARK: Derived values

    package var scheme: String { isSecure ? "https" : "http" }

    package var usesDefaultPort: Bool { port == (isSecure ? 443 : 80) }

    /// The host, followed by the port unless it is the default: the value of `Host` (RFC 9110, section 7.2).
    package var authority: String { usesDefaultPort ? host : "\(host):\(port)" }

    /// The host without brackets, and with the zone after a `%`, as system calls expect it.
    package var bareHost: String {
        guard host.utf8.first == UInt8(ascii: "[") else { return host }
        return String(host.dropFirst().dropLast()) + (zone.map { "%\($0)" } ?? "")
    }

    /// The same host over TLS. Port 80 becomes 443; other ports are kept (RFC 6797, section 8.3).
    package var secured: Target {
        isSecure ? self : Target(isSecure: true, host: host, port: port == 80 ? 443 : port, zone: zone)
    }

    /// The authority including the zone, which uniquely identifies a destination.
    package var place: String {
        guard let zone else { return authority }
        return "\(host.dropLast())%25\(zone)]" + (usesDefaultPort ? "" : ":\(port)")
    }

    /// Returns the ``place`` of a URL; nil if it is not an http or https URL with a valid host.
    package static func place(of url: URL?) -> String? { url.flatMap { Target($0)?.place } }
}

extension Target: CustomStringConvertible {
    /// The target as the start of a URL, without the default port.
    package var description: String { "\(scheme)://\(place)" }
}

/// An http or https URL in the form in which it is sent, and its target.
package struct HTTPAddress: Sendable, Hashable {
    /// The target of the URL.
    package let target: Target
    /// The URL. Its scheme and authority are normalized, so that every parser finds the same target. They are followed
    /// by a slash and the unchanged path, query and fragment.
    package let text: String
    /// Whether the original URL had user information, even if empty. `text` does not contain it.
    package let hasUserInfo: Bool

    /// The reason a string is not an http or https URL.
    package enum Problem: Error, Equatable {
        case noScheme
        /// The scheme, in lower case.
        case otherScheme(String)
        /// The host is missing, or the authority is invalid.
        case noHost
    }

    /// Creates an address from its parts.
    ///
    /// - Parameters:
    ///   - text: A URL that begins like another address of the same target.
    package init(target: Target, text: String) {
        self.target = target
        self.text = text
        hasUserInfo = false
    }

    /// Creates the address of a URL given as a string. Returns nil if the string is not an http or https URL.
    package init?(_ text: String) {
        guard let address = try? HTTPAddress.reading(text) else { return nil }
        self = address
    }

    /// Returns the address of a URL given as a string. Throws if the string is not an http or https URL.
    package static func reading(_ text: String) throws(Problem) -> HTTPAddress {
        if let target = Target(plain: text) { return HTTPAddress(target: target, text: text) }
        return try HTTPAddress(parsing: text, withSchemes: { Self.isSecure($0) })
    }

    /// The same URL over TLS.
    package var secured: HTTPAddress {
        if target.isSecure { return self }
        return HTTPAddress(target: target.secured, text: target.secured.description + afterAuthority)
    }

    /// The path, the query and the fragment.
    package var afterAuthority: Substring {
        let authority = text.utf8.dropFirst(target.isSecure ? "https://".utf8.count : "http://".utf8.count)
        return text[(authority.firstIndex(of: UInt8(ascii: "/")) ?? text.endIndex)...]
    }

    fileprivate static func isSecure(_ scheme: ArraySlice<UInt8>) -> Bool? {
        if ASCII.equalIgnoringCase(scheme, "https".utf8) { return true }
        return ASCII.equalIgnoringCase(scheme, "http".utf8) ? false : nil
    }

    fileprivate init(
        parsing text: String, withSchemes isSecure: (ArraySlice<UInt8>) -> Bool?
    ) throws(Problem) {
        let bytes = Array(text.utf8)
        let parts = URLParts(bytes[...])
        guard let scheme = parts.scheme else { throw .noScheme }
        guard let isSecure = isSecure(scheme) else {
            throw .otherScheme(String(decoding: scheme.map(ASCII.lowercased), as: UTF8.self))
        }
        guard let given = parts.authority, let authority = URLAuthority(given), !authority.host.isEmpty,
            let target = Target(isSecure: isSecure, authority)
        else { throw .noHost }
        self.target = target
        hasUserInfo = authority.userInfo != nil
        let rest = String(decoding: bytes[parts.path.startIndex...], as: UTF8.self)
        // Without the slash, some parsers would treat the `?` as part of the host.
        self.text = target.description + (rest.utf8.first == UInt8(ascii: "/") || rest.isEmpty ? rest : "/\(rest)")
    }
}

// MARK: Parsing

extension Target {
    /// Creates the target of an HTTP or WebSocket URL. `ws` counts as http, and `wss` as https.
    package init?(ofWebSocketOrHTTP url: URL) {
        let address = try? HTTPAddress(
            parsing: url.absoluteString,
            withSchemes: { scheme in
                if ASCII.equalIgnoringCase(scheme, "wss".utf8) { return true }
                return ASCII.equalIgnoringCase(scheme, "ws".utf8) ? false : HTTPAddress.isSecure(scheme)
            })
        guard let address else { return nil }
        self = address.target
    }

    fileprivate init?(isSecure: Bool, _ authority: URLAuthority) {
        var host = authority.host.map(ASCII.lowercased)
        var zone: String?
        if host.first == UInt8(ascii: "[") {
            let end = authority.host.firstIndex(of: UInt8(ascii: "%")) ?? authority.host.count - 1
            // `URLAuthority` writes `%25` before a zone.
            if end < host.count - 1 { zone = String(decoding: authority.host[(end + 3)...].dropLast(), as: UTF8.self) }
            guard let address = Self.shortest(String(decoding: host[1..<end], as: UTF8.self)) else { return nil }
            host = Array("[\(address)]".utf8)
        } else if host.last == UInt8(ascii: "."), let address = URLAuthority.addressInDecimals(host.dropLast()) {
            // Resolvers and proxies interpret such a name differently.
            host = address
        }
        var port = isSecure ? 443 : 80
        if let digits = authority.port, !digits.isEmpty {
            guard let number = UInt16(String(decoding: digits, as: UTF8.self)) else { return nil }
            port = Int(number)
        }
        self.init(isSecure: isSecure, host: String(decoding: host, as: UTF8.self), port: port, zone: zone)
    }

    /// Returns an IPv6 address in the form recommended by RFC 5952.
    private static func shortest(_ text: String) -> String? {
        var address = in6_addr()
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard inet_pton(AF_INET6, text, &address) == 1,
            inet_ntop(AF_INET6, &address, &buffer, socklen_t(buffer.count)) != nil
        else { return nil }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    fileprivate init?(plain address: String) {
        var address = address
        let target = address.withUTF8 { bytes -> Target? in
            guard let plain = SimpleURLAuthority(bytes) else { return nil }
            let host = String(decoding: UnsafeBufferPointer(rebasing: bytes[plain.host]), as: UTF8.self)
            return Target(isSecure: plain.isSecure, host: host, port: plain.port)
        }
        guard let target else { return nil }
        self = target
    }
}

/// The scheme and authority of a URL that, like most URLs, is already normalized, except that it may include the
/// default port. The initializer finds them in a single pass, without allocating.
package struct SimpleURLAuthority {
    package let isSecure: Bool
    /// The range of the host: a name or an IPv4 address.
    package let host: Range<Int>
    package let port: Int
    /// The index of the end of the authority, which is a slash or the end of the URL.
    package let end: Int

    /// The range of the host, and of the port unless it is the default port.
    package var place: Range<Int> { usesDefaultPort ? host : host.lowerBound..<end }
    package var usesDefaultPort: Bool { port == (isSecure ? 443 : 80) }
    package var namesPort: Bool { host.upperBound < end }

    /// - Returns: nil for any other URL.
    package init?(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let start = bytes.baseAddress, bytes.count > 7, memcmp(start, "http", 4) == 0 else { return nil }
        isSecure = bytes[4] == UInt8(ascii: "s")
        var index = isSecure ? 5 : 4
        guard memcmp(start + index, "://", 3) == 0 else { return nil }
        index += 3
        let (first, last) = (index, Self.lastLabel(bytes, &index))
        // A name that ends in a digit may be an IPv4 address in one of many spellings.
        guard last < index, !ASCII.isDigit(bytes[last]) || Self.isCommonAddress(bytes[first..<index]) else { return nil }
        host = first..<index
        var port = isSecure ? 443 : 80
        if index < bytes.count, bytes[index] == UInt8(ascii: ":") {
            index += 1
            let digits = index
            port = 0
            while index < bytes.count, ASCII.isDigit(bytes[index]), index < digits + 5 {
                port = port * 10 + Int(bytes[index] - UInt8(ascii: "0"))
                index += 1
            }
            guard index > digits, bytes[digits] != UInt8(ascii: "0"), port <= 65535 else { return nil }
        }
        guard index == bytes.count || bytes[index] == UInt8(ascii: "/") else { return nil }
        self.port = port
        end = index
    }

    /// Returns the start of the last label of a plain name.
    ///
    /// - Parameter index: The start of the name; on return, its end.
    private static func lastLabel(_ bytes: UnsafeBufferPointer<UInt8>, _ index: inout Int) -> Int {
        var last = index
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
                UInt8(ascii: "_"):
                break
            case UInt8(ascii: "."): last = index + 1
            default: return last
            }
            index += 1
        }
        return last
    }

    /// Returns whether the host is an IPv4 address in dotted-decimal form.
    private static func isCommonAddress(_ host: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        var (numbers, value, digits) = (1, 0, 0)
        for byte in host {
            if byte == UInt8(ascii: ".") {
                guard digits > 0 else { return false }
                numbers = numbers + 1
                value = 0
                digits = 0
            } else {
                // A number with a leading zero would be octal.
                guard ASCII.isDigit(byte), digits == 0 || value > 0 else { return false }
                value = value * 10 + Int(byte - UInt8(ascii: "0"))
                digits = digits + 1
                guard value <= 255 else { return false }
            }
        }
        return numbers == 4 && digits > 0
    }
}
