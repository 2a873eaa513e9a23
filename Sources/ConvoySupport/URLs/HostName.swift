import Foundation

/// A normalized host from a URL, a certificate or a setting: a DNS name or an IP address.
///
/// All comparisons of hosts use this type, so that trust, HSTS, cookies, proxies, reachability and settings follow the
/// same rules: case, brackets and one trailing dot are ignored. Trust and credentials accept only ASCII names, as they
/// appear in URLs, because a conversion would make different strings equal. Cookies, proxies and overrides convert
/// other scripts (UTS 46).
package struct HostName: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// A DNS name in lower case, without a final dot.
        case name(String)
        /// An IP address, as four or sixteen bytes.
        case address([UInt8])
    }
    package let kind: Kind

    /// Creates a host from its form in a URL. IPv6 addresses may have brackets and a zone. Returns nil for a host that
    /// DNS and certificates cannot name, because it is empty, has an empty label, or contains invalid characters.
    /// Underscores are allowed because they are common. Names in other scripts must be in their ASCII form.
    package init?(_ host: String) {
        let normal = host.utf8.allSatisfy { $0 < 0x80 } ? Self.normalized(host) : nil
        // A trailing dot does not turn an address into a name.
        if let address = Self.address(normal ?? host) {
            kind = .address(address)
            return
        }
        guard let name = normal, name.utf8.count <= 253,
            name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).allSatisfy(Self.isLabel)
        else { return nil }
        kind = .name(name)
    }

    private static func isLabel(_ label: Substring.UTF8View) -> Bool {
        (1...63).contains(label.count)
            && label.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
                    UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// Whether the host is `localhost` or a subdomain of it. These names resolve to this machine without DNS (RFC 6761,
    /// section 6.3).
    package var isLocalhost: Bool {
        if case .name(let name) = kind { Self.isName(name, equalToOrBelow: "localhost") } else { false }
    }

    /// Whether the host is this machine: a name or an address of the loopback interface.
    package var isLoopback: Bool {
        switch kind {
        case .name: isLocalhost
        case .address(let bytes):
            bytes.count == 4 ? bytes[0] == 127 : bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1
        }
    }
}

// MARK: Hosts as strings

extension HostName {
    /// Returns the four or sixteen bytes of an IP address, with or without brackets or a zone, or nil for a name.
    package static func address(_ host: String) -> [UInt8]? {
        var text = withoutBrackets(host)
        if text.utf8.contains(UInt8(ascii: ":")), let zone = text.firstIndex(of: "%") { text = text[..<zone] }
        // `inet_pton` would treat a zero byte as the end of the string.
        guard !text.utf8.contains(0) else { return nil }
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, String(text), &bytes) == 1 { return Array(bytes[..<4]) }
        return inet_pton(AF_INET6, String(text), &bytes) == 1 ? bytes : nil
    }

    /// Returns an address as a string (RFC 5952).
    package static func text(ofAddress bytes: [UInt8]) -> String {
        var text = [CChar](repeating: 0, count: 64)
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        guard bytes.count == 4 || bytes.count == 16, inet_ntop(family, bytes, &text, 64) != nil else {
            return "an address"
        }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Returns the host in lower case and ASCII, without brackets or a trailing dot, or nil if it is invalid. The
    /// result may contain characters that are allowed only in URLs.
    package static func normalized(_ host: String) -> String? {
        if isNormal(host) { return host }
        let bytes = Array(withoutBrackets(host).utf8)
        let isASCII = bytes.allSatisfy { $0 < 0x80 }
        guard var name = isASCII ? bytes.map(ASCII.lowercased) : URLAuthority.asciiName(bytes[...]) else { return nil }
        if name.last == UInt8(ascii: ".") { name.removeLast() }
        let text = String(decoding: name, as: UTF8.self)
        return isNormal(text) ? text : nil
    }

    /// Returns the host, valid or not, with ASCII letters in lower case and without a trailing dot. Use the result for
    /// rules that invalid hosts must not evade.
    package static func spelling(of host: String) -> String {
        // `lowercased()` would convert some non-ASCII letters to ASCII.
        let bytes = host.utf8.map(ASCII.lowercased)
        return String(decoding: bytes.last == UInt8(ascii: ".") ? bytes.dropLast() : bytes[...], as: UTF8.self)
    }

    /// Returns whether a normalized host is an IP address, which has no parent domains.
    package static func isAddress(_ host: String) -> Bool {
        if host.utf8.contains(UInt8(ascii: ":")) { return true }
        guard let last = host.utf8.last, ASCII.isDigit(last) else { return false }
        var address = in_addr()
        return inet_pton(AF_INET, host, &address) == 1
    }

    /// Returns whether a host equals a domain or is a subdomain of it. Both must be normalized.
    package static func isName(_ host: String, equalToOrBelow domain: String) -> Bool {
        if host == domain { return true }
        let (bytes, end) = (host.utf8, domain.utf8)
        guard bytes.count > end.count, !end.isEmpty, bytes.dropLast(end.count).last == UInt8(ascii: "."),
            bytes.suffix(end.count).elementsEqual(end)
        else { return false }
        return !isAddress(host)
    }

    package static func withoutBrackets(_ host: String) -> Substring {
        guard host.utf8.first == UInt8(ascii: "["), host.utf8.last == UInt8(ascii: "]") else { return host[...] }
        return host.dropFirst().dropLast()
    }

    /// Returns whether a host is already normalized. Does not allocate.
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
}
