import CPSL
import ConvoySupport
import Foundation

/// Normalizes and compares hosts of requests and domains of cookies (RFC 6265bis, sections 5.1.2 and 5.1.3).
enum CookieHost {
    /// The normal form of a host: in lower case and ASCII, without brackets and trailing dot; nil for an invalid host.
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

    /// Fast path: whether a host is in normal form, without an allocation.
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

    /// Whether a host equals a domain or is a subdomain of it. Both are normalized.
    static func matches(_ host: String, domain: String) -> Bool {
        if host == domain { return true }
        let (bytes, end) = (host.utf8, domain.utf8)
        guard bytes.count > end.count, !end.isEmpty, bytes.dropLast(end.count).last == UInt8(ascii: "."),
            bytes.suffix(end.count).elementsEqual(end)
        else { return false }
        return !isAddress(host)
    }
}

/// Writes internationalized host names in ASCII (RFC 3492, RFC 5891).
///
/// Names are first composed and put in lower case. That is less than UTS #46 demands, but consistent for each spelling
/// of a name in URLs: at worst a cookie is not sent; it is never sent to another host.
enum Punycode {
    /// The host with each label that is not ASCII encoded as `xn--…`; nil if that is impossible.
    static func host(_ host: Substring) -> String? {
        var labels: [String] = []
        // The full stops of other scripts also separate labels.
        let dots: Set<Character> = [".", "\u{3002}", "\u{FF0E}", "\u{FF61}"]
        for label in host.split(omittingEmptySubsequences: false, whereSeparator: dots.contains) {
            let label = label.lowercased()
            if label.utf8.allSatisfy({ $0 < 0x80 }) {
                labels.append(label)
            } else {
                guard let encoded = encoded(composed(label)), encoded.utf8.count <= 59 else { return nil }
                labels.append("xn--" + encoded)
            }
        }
        return labels.joined(separator: ".")
    }

    private static func composed(_ label: String) -> [UInt32] {
        label.precomposedStringWithCanonicalMapping.unicodeScalars.map(\.value)
    }

    private static func encoded(_ scalars: [UInt32]) -> String? {
        var output = scalars.filter { $0 < 0x80 }.map { UInt8($0) }
        let basicCount = output.count
        if basicCount > 0 { output.append(UInt8(ascii: "-")) }
        // No label is longer; the limit also prevents overflow below.
        guard scalars.count <= 63 else { return nil }
        var (next, delta, bias) = (UInt32(0x80), UInt32(0), UInt32(72))
        var handled = basicCount
        while handled < scalars.count {
            guard let smallest = scalars.filter({ $0 >= next }).min() else { return nil }
            delta += (smallest - next) * UInt32(handled + 1)
            next = smallest
            for scalar in scalars {
                if scalar < next { delta += 1 }
                guard scalar == next else { continue }
                var rest = delta
                var k: UInt32 = 36
                while true {
                    let threshold = k <= bias ? 1 : min(k - bias, 26)
                    if rest < threshold { break }
                    output.append(digit(threshold + (rest - threshold) % (36 - threshold)))
                    rest = (rest - threshold) / (36 - threshold)
                    k += 36
                }
                output.append(digit(rest))
                bias = adapted(delta, count: UInt32(handled + 1), isFirst: handled == basicCount)
                delta = 0
                handled += 1
            }
            delta += 1
            next += 1
        }
        return String(decoding: output, as: UTF8.self)
    }

    private static func digit(_ value: UInt32) -> UInt8 {
        UInt8(value < 26 ? value + 0x61 : value - 26 + 0x30)
    }

    private static func adapted(_ delta: UInt32, count: UInt32, isFirst: Bool) -> UInt32 {
        var delta = isFirst ? delta / 700 : delta / 2
        delta += delta / count
        var k: UInt32 = 0
        while delta > 455 {
            delta /= 35
            k += 36
        }
        return k + 36 * delta / (delta + 38)
    }
}

/// The public suffix list: the domains below which anyone can register names, such as `com` and `co.uk`, and which
/// therefore cannot have cookies.
///
/// The newer of libpsl's built-in list and the system's (Debian: package `publicsuffix`) is loaded once per process.
enum PublicSuffixes {
    private struct List: @unchecked Sendable {
        /// Immutable and never freed, so any thread may use it.
        let context: OpaquePointer?
    }
    private static let list = List(context: psl_latest(nil) ?? psl_builtin())

    /// Whether a normalized domain is a public suffix, as is each name without a dot, such as `localhost`.
    static func contains(_ domain: String) -> Bool {
        if CookieHost.isAddress(domain) { return false }
        guard let context = list.context else { return !domain.utf8.contains(UInt8(ascii: ".")) }
        return psl_is_public_suffix2(context, domain, PSL_TYPE_ICANN | PSL_TYPE_PRIVATE) == 1
    }

    /// The registrable part of a normalized host: a public suffix and one more label; nil for a public suffix and an
    /// address.
    static func registrableDomain(of host: String) -> String? {
        guard !host.isEmpty, !CookieHost.isAddress(host), let context = list.context else { return nil }
        // The result points into the argument.
        return host.withCString { text in psl_registrable_domain(context, text).map { String(cString: $0) } }
    }

    /// The site of a host: its registrable domain, or the host itself if it has none.
    static func site(of host: String) -> String { registrableDomain(of: host) ?? host }
}
