import Foundation

/// Which hosts a policy is for: `api.example.com`, `*.example.com` for any one label in place of the star, or
/// `**.example.com` for the domain and everything below it.
///
/// It is coded as its text.
public struct HostPattern: Sendable, Hashable, CustomStringConvertible {
    /// The pattern, in lower case.
    public let description: String
    private let kind: Kind
    private let name: String

    private enum Kind: Hashable { case exact, label, domain }

    /// A pattern from its text.
    ///
    /// - Throws: `HostPatternError` for a text that is no host, or has a star elsewhere.
    public init(_ text: String) throws(HostPatternError) {
        let text = text.lowercased()
        let (kind, rest): (Kind, Substring) =
            if text.hasPrefix("**.") { (.domain, text.dropFirst(3)) } else if text.hasPrefix("*.") {
                (.label, text.dropFirst(2))
            } else { (.exact, text[...]) }
        guard let host = HostName(String(rest)) else { throw HostPatternError(text: text) }
        switch host.kind {
        case .name(let name): self.name = name
        case .address where kind == .exact: name = HostPattern.canonical(String(rest))
        case .address: throw HostPatternError(text: text)
        }
        self.kind = kind
        description = text
    }

    /// Whether it covers a host, as in a URL.
    public func covers(_ host: String) -> Bool {
        let host = Self.canonical(host)
        switch kind {
        case .exact: return host == name
        case .label:
            guard host.hasSuffix(".\(name)") else { return false }
            let rest = host.dropLast(name.count + 1)
            return !rest.isEmpty && !rest.contains(".")
        case .domain: return host == name || host.hasSuffix(".\(name)")
        }
    }

    /// A host in one of its spellings: lower case, without a final dot or brackets.
    private static func canonical(_ host: String) -> String {
        switch HostName(host)?.kind {
        case .name(let name)?: name
        case .address(let bytes)?: bytes.map { String($0) }.joined(separator: bytes.count == 4 ? "." : ",")
        case nil: host.lowercased()
        }
    }

    /// The more specific first: a whole name, then one label, then more of a domain.
    static func isMoreSpecific(_ left: HostPattern, than right: HostPattern) -> Bool {
        let ranks: [Kind: Int] = [.exact: 0, .label: 1, .domain: 2]
        let (first, second) = (ranks[left.kind] ?? 0, ranks[right.kind] ?? 0)
        guard left.name.utf8.count == right.name.utf8.count else {
            if left.kind == .exact || right.kind == .exact { return first < second }
            return left.name.utf8.count > right.name.utf8.count
        }
        return first < second
    }
}

/// A text that is not a pattern of hosts.
public struct HostPatternError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The text.
    public let text: String

    public var description: String {
        "\(text.debugDescription) is not a pattern of hosts: a name, \"*.\" and a name, or \"**.\" and a name."
    }
}

extension HostPatternError: LocalizedError {
    public var errorDescription: String? { description }
}

extension HostPattern: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            try self.init(container.decode(String.self))
        } catch let error as HostPatternError {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
