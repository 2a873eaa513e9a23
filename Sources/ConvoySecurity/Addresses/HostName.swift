import COpenSSL
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
