import ConvoySupport

/// A pattern that matches hosts: `api.example.com`, `*.example.com` for exactly one label before the domain, or
/// `**.example.com` for the domain and all its subdomains.
///
/// A pattern is encoded as a string.
public struct HostPattern: Sendable, Hashable, CustomStringConvertible {
    /// The pattern in normal form: in lower case, without a trailing dot or brackets. Patterns for the same hosts have
    /// equal descriptions.
    public let description: String
    private let kind: Kind
    private let host: HostName.Kind

    private enum Kind: Hashable { case exact, label, domain }

    /// Creates a pattern from a string.
    ///
    /// - Throws: `SecurityTextError` if the string is not a host, or contains a star in any other position.
    public init(_ text: String) throws(SecurityTextError) {
        let (kind, rest): (Kind, Substring) =
            if text.hasPrefix("**.") { (.domain, text.dropFirst(3)) } else if text.hasPrefix("*.") {
                (.label, text.dropFirst(2))
            } else { (.exact, text[...]) }
        guard let host = HostName(String(rest)) else { throw SecurityTextError.notAHostPattern(text) }
        switch (host.kind, kind) {
        case (.name(let name), .exact): description = name
        case (.name(let name), .label): description = "*.\(name)"
        case (.name(let name), .domain): description = "**.\(name)"
        case (.address(let bytes), .exact): description = HostName.text(ofAddress: bytes)
        case (.address, _): throw SecurityTextError.notAHostPattern(text)
        }
        self.host = host.kind
        self.kind = kind
    }

    /// Returns whether the pattern matches a host, as spelled in a URL.
    public func covers(_ host: String) -> Bool {
        // Compare even hosts that no certificate can name, for example one with a space, so that they cannot evade a
        // policy.
        let other = HostName(host)?.kind ?? .name(HostName.spelling(of: host))
        guard kind != .exact, case .name(let name) = self.host, case .name(let below) = other else {
            return self.host == other
        }
        guard HostName.isName(below, equalToOrBelow: name) else { return false }
        if kind == .domain { return true }
        let rest = below.utf8.dropLast(name.utf8.count)
        return rest.count > 1 && !rest.dropLast().contains(UInt8(ascii: "."))
    }

    /// The length of the domain, in bytes.
    private var length: Int {
        if case .name(let name) = host { name.utf8.count } else { 0 }
    }

    /// Returns whether the left pattern is more specific. Exact names come before patterns, longer domains before
    /// shorter ones, and single-label patterns before subdomain patterns.
    static func isMoreSpecific(_ left: HostPattern, than right: HostPattern) -> Bool {
        let ranks: [Kind: Int] = [.exact: 0, .label: 1, .domain: 2]
        let (first, second) = (ranks[left.kind] ?? 0, ranks[right.kind] ?? 0)
        guard left.kind != .exact, right.kind != .exact, left.length != right.length else { return first < second }
        return left.length > right.length
    }
}

extension HostPattern: TextCodable {
    package init(decoding text: String) throws { try self.init(text) }
}
