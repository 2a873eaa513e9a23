import COpenSSL
import ConvoySupport
import Foundation

/// The host of a connection as certificates name it: a DNS name or an IP address (RFC 9525, section 2).
struct HostName: Sendable, Hashable {
    enum Kind: Hashable {
        /// In lower case, without a final dot.
        case name(String)
        /// Four bytes or sixteen.
        case address([UInt8])
    }
    let kind: Kind

    /// A host as in a URL: IPv6 with or without brackets, with a zone or without. nil if no certificate can name it: if
    /// it is empty, has an empty label, or characters that no host name has. (Names in other scripts must be in their
    /// ASCII form, as they are in URLs.)
    init?(_ host: String) {
        var text = Substring(host)
        if text.first == "[", text.last == "]" { text = text.dropFirst().dropLast() }
        if text.utf8.contains(UInt8(ascii: ":")), let zone = text.firstIndex(of: "%") { text = text[..<zone] }
        if let address = Self.address(String(text)) {
            kind = .address(address)
            return
        }
        if text.utf8.last == UInt8(ascii: ".") { text = text.dropLast() }
        let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard text.utf8.count <= 253, labels.allSatisfy({ Self.isLabel($0) }) else { return nil }
        kind = .name(text.lowercased())
    }

    private static func isLabel(_ label: Substring.UTF8View) -> Bool {
        (1...63).contains(label.count)
            && label.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    private static func address(_ text: String) -> [UInt8]? {
        // `inet_pton` would take a zero byte for the end.
        guard !text.utf8.contains(0) else { return nil }
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 { return Array(bytes[..<4]) }
        return inet_pton(AF_INET6, text, &bytes) == 1 ? bytes : nil
    }

    /// An address in digits.
    static func text(ofAddress bytes: [UInt8]) -> String {
        var text = [CChar](repeating: 0, count: 64)
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        guard bytes.count == 4 || bytes.count == 16, inet_ntop(family, bytes, &text, 64) != nil else {
            return "an address"
        }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// A wildcard stands for a whole label, and the common name does not count (RFC 9525, sections 6.3 and 6.4).
    static var checks: UInt32 {
        UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)
    }

    /// Whether a certificate names the host.
    func isNamed(by certificate: OpaquePointer) -> Bool {
        switch kind {
        case .name(let name):
            X509_check_host(certificate, name, name.utf8.count, Self.checks, nil) == 1
        case .address(let bytes): X509_check_ip(certificate, bytes, bytes.count, Self.checks) == 1
        }
    }

    /// Makes OpenSSL check the name when it verifies a chain. False if OpenSSL refuses.
    func require(in parameters: OpaquePointer) -> Bool {
        X509_VERIFY_PARAM_set_hostflags(parameters, Self.checks)
        return switch kind {
        case .name(let name): X509_VERIFY_PARAM_set1_host(parameters, name, name.utf8.count) == 1
        case .address(let bytes): X509_VERIFY_PARAM_set1_ip(parameters, bytes, bytes.count) == 1
        }
    }
}

/// A pattern of hosts: `api.example.com`, `*.example.com` with any one label in place of the star, or `**.example.com`
/// for the domain and everything below it.
///
/// It is coded as its text.
public struct HostPattern: Sendable, Hashable, CustomStringConvertible {
    /// The pattern in its normal form, in lower case, without a final dot or brackets: patterns of the same hosts have
    /// the same text.
    public let description: String
    private let kind: Kind
    private let host: HostName.Kind

    private enum Kind: Hashable { case exact, label, domain }

    /// A pattern from its text.
    ///
    /// - Throws: `SecurityTextError` for a text that is not a host, or has a star elsewhere.
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

    /// Whether the pattern covers a host, in the form that it has in a URL.
    public func covers(_ host: String) -> Bool {
        let other = HostName(host)?.kind ?? .name(Self.spelling(of: host))
        guard kind != .exact, case .name(let name) = self.host, case .name(let below) = other else {
            return self.host == other
        }
        if kind == .domain, below == name { return true }
        guard below.hasSuffix(".\(name)") else { return false }
        let rest = below.dropLast(name.utf8.count + 1)
        return !rest.isEmpty && (kind == .domain || !rest.utf8.contains(UInt8(ascii: ".")))
    }

    /// Normalizes a host that no certificate can name, such as one with a space. It is compared too, so that it cannot
    /// evade a policy. (`lowercased()` would turn some other letters into ASCII ones.)
    private static func spelling(of host: String) -> String {
        let bytes = host.utf8.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
        return String(decoding: bytes.last == UInt8(ascii: ".") ? bytes.dropLast() : bytes[...], as: UTF8.self)
    }

    /// The length of the domain.
    private var length: Int {
        if case .name(let name) = host { name.utf8.count } else { 0 }
    }

    /// Whether the left pattern is more specific: a whole name comes before patterns, a longer domain before a shorter
    /// one, and one label before all below.
    static func isMoreSpecific(_ left: HostPattern, than right: HostPattern) -> Bool {
        let ranks: [Kind: Int] = [.exact: 0, .label: 1, .domain: 2]
        let (first, second) = (ranks[left.kind] ?? 0, ranks[right.kind] ?? 0)
        guard left.kind != .exact, right.kind != .exact, left.length != right.length else { return first < second }
        return left.length > right.length
    }
}

extension HostPattern: Codable {
    /// Decodes a pattern from its text.
    ///
    /// - Throws: `DecodingError.dataCorrupted` for a text that is not a pattern.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            try self.init(container.decode(String.self))
        } catch let error as SecurityTextError {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
