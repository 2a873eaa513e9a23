import ConvoySupport
import Foundation

/// Hosts of requests and domains of cookies (RFC 6265bis, sections 5.1.2 and 5.1.3).
enum CookieHost {
    /// The form in which hosts are compared: in lower case and ASCII, without brackets, and without the dot at the end,
    /// with which it is the same host; nil for what cannot be a host.
    static func normalized(_ host: String) -> String? {
        if isNormal(host) { return host }
        var name = host[...]
        if name.hasPrefix("["), name.hasSuffix("]") { name = name.dropFirst().dropLast() }
        if name.utf8.last == UInt8(ascii: ".") { name = name.dropLast() }
        let isASCII = name.utf8.allSatisfy { $0 < 0x80 }
        let result = isASCII ? name.lowercased() : Punycode.host(name)
        guard let result, isNormal(result) else { return nil }
        return result
    }

    /// Whether a host is in that form. This is the common case, so it is found out without an allocation.
    private static func isNormal(_ host: String) -> Bool {
        var last = UInt8(ascii: ".")
        for byte in host.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), 0...0x20, 0x7F..., UInt8(ascii: "["), UInt8(ascii: "]"),
                UInt8(ascii: "/"), UInt8(ascii: ";"), UInt8(ascii: "="), UInt8(ascii: ","), UInt8(ascii: "\""):
                return false
            case UInt8(ascii: ".") where last == byte: return false
            default: last = byte
            }
        }
        return last != UInt8(ascii: ".")
    }

    /// Whether a normalized host is an IP address, which has no domains above it.
    static func isAddress(_ host: String) -> Bool {
        if host.utf8.contains(UInt8(ascii: ":")) { return true }
        guard let last = host.utf8.last, ASCII.isDigit(last) else { return false }
        var address = in_addr()
        return inet_pton(AF_INET, host, &address) == 1
    }

    /// Whether a host is a domain or below it. Both are normalized.
    static func matches(_ host: String, domain: String) -> Bool {
        if host == domain { return true }
        let (bytes, end) = (host.utf8, domain.utf8)
        guard bytes.count > end.count, !end.isEmpty, bytes.dropLast(end.count).last == UInt8(ascii: "."),
            bytes.suffix(end.count).elementsEqual(end)
        else { return false }
        return !isAddress(host)
    }
}
