import Foundation

/// The user information, host and port of a URL (RFC 3986, section 3.2), in the form in which they are sent.
///
/// It is strict, unlike the other parts: nothing is accepted that one parser takes for the end of the host and another
/// for part of it.
struct URLAuthority {
    let userInfo: ArraySlice<UInt8>?
    /// A name in ASCII (converted by UTS 46 if it is international), an IPv4 address of four decimal numbers, or an
    /// IPv6 address in brackets.
    let host: [UInt8]
    /// Digits; empty if nothing follows the colon.
    let port: ArraySlice<UInt8>?

    /// - Returns: nil for control characters and backslashes, for a host with invalid characters, even encoded ones,
    ///   and for a port above 65535.
    init?(_ text: ArraySlice<UInt8>) {
        guard text.allSatisfy({ $0 > 0x1F && $0 != 0x7F && $0 != UInt8(ascii: "\\") }) else { return nil }
        var rest = text
        // The last one: all parsers agree that the host follows it.
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

    /// An IPv6 address in brackets, with an optional zone (RFC 6874) after `%25` or a lone `%`.
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
        return Array("[".utf8) + inside[..<percent] + Array("%25".utf8) + zone + Array("]".utf8)
    }

    private static func name(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        registeredName(text).map { addressInDecimals($0[...]) ?? $0 }
    }

    /// `0x7f.1` and `2130706433` are 127.0.0.1, as for libcurl and browsers.
    static func addressInDecimals(_ name: ArraySlice<UInt8>) -> [UInt8]? {
        var address = in_addr()
        guard let first = name.first, ASCII.isDigit(first),
            inet_aton(String(decoding: name, as: UTF8.self), &address) != 0
        else { return nil }
        let bytes = withUnsafeBytes(of: address.s_addr) { Array($0) }
        return Array(bytes.map { String($0) }.joined(separator: ".").utf8)
    }

    private static func registeredName(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        if text.allSatisfy(ByteSet.host.contains) { return Array(text) }
        // A percent-encoded host is decoded here, as some parsers decode it and some do not.
        let bytes = PercentEncoding.decoded(text)
        if bytes.allSatisfy(ByteSet.host.contains) { return bytes }
        guard bytes.allSatisfy({ $0 >= 0x80 || ByteSet.host.contains($0) }),
            let unicode = String(validating: bytes, as: UTF8.self),
            // The text, not `host`, which Foundation decodes.
            let ascii = URL(string: "http://\(unicode)/")?.absoluteString.utf8.dropFirst(7).dropLast(),
            // There are letters whose compatibility form is a `%` or a `/`.
            !ascii.isEmpty, ascii.allSatisfy(ByteSet.host.contains)
        else { return nil }
        return Array(ascii)
    }
}
