import ConvoySupport
import Foundation

/// The hosts that are reached without a proxy: the patterns of `no_proxy`, as libcurl matches them.
///
/// Patterns are divided by commas or blanks. `*` alone stands for every host. A name stands for itself and for all names
/// that end in a dot and it; a dot before or after it does not matter, nor do capitals. An address stands for itself, and
/// with `/8` and the like for its network; 0 bits stand for the whole address. IPv6 may be in brackets. (libcurl 7.88
/// compares IPv6 addresses only as text, and its networks not at all; here they count.)
struct ProxyExceptions {
    private let text: String

    init(_ text: String) { self.text = text }

    /// - Parameter host: of a URL, with or without brackets.
    func contains(_ host: String) -> Bool {
        guard !text.isEmpty, !host.isEmpty else { return false }
        if text == "*" { return true }
        let name = Self.name(of: host)
        let address = Self.address(in: name)
        return text.split { $0 == "," || $0 == " " || $0 == "\t" }.contains { pattern in
            if let address { return Self.matches(pattern, address) }
            return Self.matches(pattern, name: name)
        }
    }

    /// Without brackets, the zone of an address, and a dot at the end.
    private static func name(of host: String) -> String {
        var name = Substring(host)
        if name.first == "[", name.last == "]" { name = name.dropFirst().dropLast() }
        if name.contains(":"), let zone = name.firstIndex(of: "%") { name = name[..<zone] }
        if name.last == "." { name = name.dropLast() }
        return name.lowercased()
    }

    private static func matches(_ pattern: Substring, name: String) -> Bool {
        var pattern = Substring(pattern.lowercased())
        if pattern.last == "." { pattern = pattern.dropLast() }
        if pattern.first == "." { pattern = pattern.dropFirst() }
        return !pattern.isEmpty && (name == pattern || name.hasSuffix(".\(pattern)"))
    }

    private static func matches(_ pattern: Substring, _ address: [UInt8]) -> Bool {
        let parts = pattern.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        var network = parts[0]
        if network.first == "[", network.last == "]" { network = network.dropFirst().dropLast() }
        guard let network = Self.address(in: String(network)), network.count == address.count else { return false }
        // What is not a number counts as none, as in C.
        var bits = parts.count == 2 ? Int(parts[1].prefix { ("0"..."9").contains($0) }) ?? 0 : 0
        if bits == 0 { bits = address.count * 8 }
        guard bits <= address.count * 8 else { return false }
        for (index, pair) in zip(address, network).enumerated() {
            let left = bits - index * 8
            if left <= 0 { break }
            let mask: UInt8 = left >= 8 ? 0xFF : ~(0xFF >> UInt8(left))
            if (pair.0 ^ pair.1) & mask != 0 { return false }
        }
        return true
    }

    /// The four or sixteen bytes of an address.
    private static func address(in text: String) -> [UInt8]? {
        guard !text.utf8.contains(0) else { return nil }
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 { return Array(bytes[..<4]) }
        return inet_pton(AF_INET6, text, &bytes) == 1 ? bytes : nil
    }
}
