import Foundation

/// Converts references as servers and people write them to URLs. References can be absolute or relative, and can
/// contain characters that are not allowed in a URL (RFC 3986, sections 4.1 and 5.2).
///
/// On Linux, Foundation encodes every `%` again if any character is not allowed: `/?a=%20b c` becomes `/?a=%2520b%20c`,
/// a different resource. This type encodes each part with its own set of characters, and keeps existing escapes.
///
/// No character is dropped or replaced, so that every parser sees the same host. In particular, `\` is not treated as
/// `/`, and tabs and line breaks are encoded. In the authority, where browsers treat `\` as the end of the host, these
/// characters are rejected.
package enum URLReference {
    /// Returns the URL of a reference, or nil if the reference is invalid, is relative without a base, or is an http or
    /// https URL without a host.
    ///
    /// - Parameters:
    ///   - reference: The reference as a string. Disallowed characters are encoded as UTF-8.
    ///   - base: The base URL for a relative reference.
    ///   - keepsDotSegments: Whether dot segments are kept. A relative path is then appended to that of the base.
    package static func url(
        _ reference: String, relativeTo base: URL? = nil, keepingDotSegments keepsDotSegments: Bool = false
    ) -> URL? {
        url(Array(reference.utf8), relativeTo: base, keepingDotSegments: keepsDotSegments)
    }

    /// Returns the URL of a reference given as bytes in any encoding. Disallowed bytes are percent-encoded.
    package static func url(
        _ reference: [UInt8], relativeTo base: URL? = nil, keepingDotSegments keepsDotSegments: Bool = false
    ) -> URL? {
        guard let target = parts(of: reference, relativeTo: base?.absoluteString, keepsDotSegments),
            !target.isHTTP || target.hasHost
        else { return nil }
        // All characters are already encoded, so Foundation changes nothing.
        return URL(string: target.text, encodingInvalidCharacters: false)
    }

    /// Returns the target URL as a string (RFC 3986, section 5.2.2, strict).
    static func text(_ reference: String, relativeTo base: String?) -> String? {
        parts(of: Array(reference.utf8), relativeTo: base, false)?.text
    }

    private static func parts(
        of reference: [UInt8], relativeTo base: String?, _ keepsDotSegments: Bool
    ) -> URLParts? {
        var target = URLParts(reference[...])
        var isResolved = false
        if target.scheme == nil {
            guard let base = base.map({ URLParts(Array($0.utf8)[...]) }), base.scheme != nil else { return nil }
            target.scheme = base.scheme
            if target.authority == nil {
                target.authority = base.authority
                if target.path.isEmpty {
                    target.path = base.path
                    target.query = target.query ?? base.query
                    isResolved = true
                } else if target.path.first != UInt8(ascii: "/") {
                    target.path = base.merged(with: target.path)
                }
            }
        }
        if !isResolved, !keepsDotSegments { target.path = URLParts.removingDotSegments(target.path) }
        return target.encoded()
    }
}

/// The five parts of a URI reference, as bytes (RFC 3986, section 3).
struct URLParts {
    var scheme: ArraySlice<UInt8>?
    var authority: ArraySlice<UInt8>?
    var path: ArraySlice<UInt8>
    var query: ArraySlice<UInt8>?
    var fragment: ArraySlice<UInt8>?

    /// Splits a reference as the regular expression in appendix B does. Any string can be split.
    init(_ reference: ArraySlice<UInt8>) {
        var rest = reference
        if let mark = rest.firstIndex(of: UInt8(ascii: "#")) {
            fragment = rest[(mark + 1)...]
            rest = rest[..<mark]
        }
        if let mark = rest.firstIndex(of: UInt8(ascii: "?")) {
            query = rest[(mark + 1)...]
            rest = rest[..<mark]
        }
        if let end = rest.firstIndex(where: { !ByteSet.scheme.contains($0) }), rest[end] == UInt8(ascii: ":"),
            let first = rest.first, Self.isLetter(first)
        {
            scheme = rest[..<end]
            rest = rest[(end + 1)...]
        }
        if rest.starts(with: Self.slashes) {
            rest = rest.dropFirst(2)
            let end = rest.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
            authority = rest[..<end]
            rest = rest[end...]
        }
        path = rest
    }

    /// Returns the encoded parts, or nil if the authority is invalid or the path would be parsed as an authority.
    func encoded() -> URLParts? {
        var parts = self
        if let authority {
            guard let authority = URLAuthority(authority)?.bytes else { return nil }
            parts.authority = authority[...]
        } else if path.starts(with: Self.slashes) {
            return nil
        }
        parts.path = PercentEncoding.encoded(path, allowing: .path)
        parts.query = query.map { PercentEncoding.encoded($0, allowing: .query) }
        parts.fragment = fragment.map { PercentEncoding.encoded($0, allowing: .query) }
        return parts
    }

    /// The reference as a string (section 5.3).
    var text: String {
        var bytes: [UInt8] = []
        if let scheme { bytes += scheme + [UInt8(ascii: ":")] }
        if let authority { bytes += Self.slashes + authority }
        bytes += path
        if let query { bytes += [UInt8(ascii: "?")] + query }
        if let fragment { bytes += [UInt8(ascii: "#")] + fragment }
        return String(decoding: bytes, as: UTF8.self)
    }

    var isHTTP: Bool {
        guard let scheme else { return false }
        return ASCII.equalIgnoringCase(scheme, "http".utf8) || ASCII.equalIgnoringCase(scheme, "https".utf8)
    }

    var hasHost: Bool { authority.flatMap(URLAuthority.init).map { !$0.host.isEmpty } ?? false }

    // MARK: Resolving

    /// Merges a relative path with the path of this base (section 5.2.3).
    func merged(with relative: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        if authority != nil, path.isEmpty { return [UInt8(ascii: "/")] + relative }
        let end = path.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? path.startIndex
        return path[..<end] + relative
    }

    /// Resolves `.` and `..` (section 5.2.4).
    static func removingDotSegments(_ path: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let dot = UInt8(ascii: "."), slash = UInt8(ascii: "/")
        guard path.contains(dot) else { return path }
        var output: [UInt8] = []
        output.reserveCapacity(path.count)
        // Process the path by segment. Only the first segment of a relative path is not preceded by a slash.
        var rest = path
        while !rest.isEmpty {
            let isAfterSlash = rest.first == slash
            let start = isAfterSlash ? rest.startIndex + 1 : rest.startIndex
            let end = rest[start...].firstIndex(of: slash) ?? rest.endIndex
            let segment = rest[start..<end]
            let isLast = end == rest.endIndex
            rest = rest[end...]
            if segment.elementsEqual([dot]) || segment.elementsEqual([dot, dot]) {
                if segment.count == 2, isAfterSlash {
                    output.removeSubrange((output.lastIndex(of: slash) ?? output.startIndex)...)
                }
                if isAfterSlash {
                    if isLast { output.append(slash) }
                } else {
                    // Remove the slash after the dot segment as well.
                    rest = rest.dropFirst()
                }
            } else {
                if isAfterSlash { output.append(slash) }
                output += segment
            }
        }
        return output[...]
    }

    private static let slashes: [UInt8] = [UInt8(ascii: "/"), UInt8(ascii: "/")]

    private static func isLetter(_ byte: UInt8) -> Bool {
        byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z")
    }
}

/// The user information, host and port of a URL (RFC 3986, section 3.2), as they are sent.
///
/// Unlike the other parts, the authority is parsed strictly. Anything that one parser could treat as the end of the
/// host and another as a part of it is rejected.
struct URLAuthority {
    let userInfo: ArraySlice<UInt8>?
    /// A name in ASCII (international names are converted by UTS 46), an IPv4 address in dotted decimal, or an IPv6
    /// address in brackets.
    let host: [UInt8]
    /// The digits of the port; empty if nothing follows the colon.
    let port: ArraySlice<UInt8>?

    /// - Returns: nil for control characters and backslashes, for a host with invalid characters, even if encoded, and
    ///   for a port above 65535.
    init?(_ text: ArraySlice<UInt8>) {
        guard text.allSatisfy({ $0 > 0x1F && $0 != 0x7F && $0 != UInt8(ascii: "\\") }) else { return nil }
        var rest = text
        // Split at the last `@`: all parsers agree that the host follows the last one.
        if let at = rest.lastIndex(of: UInt8(ascii: "@")) {
            userInfo = PercentEncoding.encoded(rest[..<at], allowing: .userInfo)
            rest = rest[(at + 1)...]
        } else {
            userInfo = nil
        }
        let isLiteral = rest.first == UInt8(ascii: "[")
        let colon =
            isLiteral
            ? rest.lastIndex(of: UInt8(ascii: "]")).map { $0 + 1 } : rest.lastIndex(of: UInt8(ascii: ":"))
        let name = rest[..<(colon ?? rest.endIndex)]
        if let colon, colon < rest.endIndex {
            guard rest[colon] == UInt8(ascii: ":"), Self.isPort(rest[(colon + 1)...]) else { return nil }
            port = rest[(colon + 1)...]
        } else {
            port = nil
        }
        guard let host = isLiteral ? Self.address(name) : Self.name(name) else { return nil }
        self.host = host
    }

    var bytes: [UInt8] {
        (userInfo.map { $0 + [UInt8(ascii: "@")] } ?? []) + host + (port.map { [UInt8(ascii: ":")] + $0 } ?? [])
    }

    private static func isPort(_ digits: ArraySlice<UInt8>) -> Bool {
        digits.allSatisfy(ASCII.isDigit)
            && (digits.isEmpty || UInt16(String(decoding: digits, as: UTF8.self)) != nil)
    }

    /// Returns an IPv6 address in brackets, with an optional zone (RFC 6874) after `%25` or a lone `%`.
    private static func address(_ literal: ArraySlice<UInt8>) -> [UInt8]? {
        guard literal.count > 2, literal.last == UInt8(ascii: "]") else { return nil }
        let inside = literal.dropFirst().dropLast()
        let percent = inside.firstIndex(of: UInt8(ascii: "%")) ?? inside.endIndex
        var address = in6_addr()
        guard inet_pton(AF_INET6, String(decoding: inside[..<percent], as: UTF8.self), &address) == 1 else {
            return nil
        }
        var zone = inside[percent...]
        guard !zone.isEmpty else { return Array(literal) }
        zone = zone.dropFirst(zone.starts(with: "%25".utf8) ? 3 : 1)
        guard !zone.isEmpty, zone.allSatisfy(ByteSet.host.contains) else { return nil }
        var bytes = Array("[".utf8)
        bytes += inside[..<percent]
        bytes += "%25".utf8
        bytes += zone
        bytes += "]".utf8
        return bytes
    }

    private static func name(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        registeredName(text).map { addressInDecimals($0[...]) ?? $0 }
    }

    /// Converts alternative spellings of IPv4 addresses, as libcurl and browsers do: `0x7f.1` and `2130706433` are
    /// 127.0.0.1.
    static func addressInDecimals(_ name: ArraySlice<UInt8>) -> [UInt8]? {
        var address = in_addr()
        guard let first = name.first, ASCII.isDigit(first),
            inet_aton(String(decoding: name, as: UTF8.self), &address) != 0
        else { return nil }
        let bytes = withUnsafeBytes(of: address.s_addr) { Array($0) }
        return Array(bytes.map { String($0) }.joined(separator: ".").utf8)
    }

    /// Returns a name in lower case and ASCII, or nil if it is invalid. Names in other scripts are converted by UTS 46.
    static func asciiName(_ text: ArraySlice<UInt8>) -> [UInt8]? { registeredName(text).map { $0.map(ASCII.lowercased) } }

    private static func registeredName(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        if text.allSatisfy(ByteSet.host.contains) { return Array(text) }
        // Decode the host, because some parsers decode a percent-encoded host and others do not.
        let bytes = PercentEncoding.decoded(text)
        if bytes.allSatisfy(ByteSet.host.contains) { return bytes }
        guard bytes.allSatisfy({ $0 >= 0x80 || ByteSet.host.contains($0) }),
            let unicode = String(validating: bytes, as: UTF8.self),
            // Use `absoluteString`, as Foundation decodes `host`.
            let ascii = URL(string: "http://\(unicode)/")?.absoluteString.utf8.dropFirst(7).dropLast(),
            // Check the result, because compatibility mapping turns some characters into `%` or `/`.
            !ascii.isEmpty, ascii.allSatisfy(ByteSet.host.contains)
        else { return nil }
        return Array(ascii)
    }
}
