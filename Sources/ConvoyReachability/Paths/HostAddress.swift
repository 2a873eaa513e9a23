import CEpoll
import ConvoySupport
import Foundation

/// An IPv4 or IPv6 address with its zone, if it has one.
struct HostAddress: Hashable, Sendable {
    /// Four or sixteen, in the order in which they travel.
    let bytes: [UInt8]
    /// For an IPv6 address that has a meaning on one link only: the link's name, or its number as text.
    let zone: String?

    /// An address from text, such as `192.0.2.1`, `2001:db8::1`, `[::1]` or `fe80::1%eth0`; nil for anything else.
    init?(_ text: String) {
        // To the functions below a zero byte would be the end.
        guard !text.utf8.contains(0) else { return nil }
        let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
        let parts = (isBracketed ? text.dropFirst().dropLast() : text[...])
            .split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
        var bytes = [UInt8](repeating: 0, count: 16)
        if parts.count == 1, !isBracketed, inet_pton(AF_INET, String(parts[0]), &bytes) == 1 {
            self.init(bytes: Array(bytes[..<4]), zone: nil)
        } else if inet_pton(AF_INET6, String(parts[0]), &bytes) == 1 {
            guard parts.count == 1 || !parts[1].isEmpty else { return nil }
            self.init(bytes: bytes, zone: parts.count > 1 ? String(parts[1]) : nil)
        } else {
            return nil
        }
    }

    /// An address in the system's form; nil for one of another family.
    init?(_ address: UnsafePointer<sockaddr>) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            let bytes = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin_addr) { Array($0) }
            }
            self.init(bytes: bytes, zone: nil)
        case AF_INET6:
            let (bytes, scope) = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                (withUnsafeBytes(of: $0.pointee.sin6_addr) { Array($0) }, $0.pointee.sin6_scope_id)
            }
            self.init(bytes: bytes, zone: scope == 0 ? nil : String(scope))
        default: return nil
        }
    }

    /// To the system an IPv6 address of the form `::ffff:192.0.2.1` is the IPv4 address in it (RFC 4291, 2.5.5.2).
    private init(bytes: [UInt8], zone: String?) {
        let isMapped = bytes.count == 16 && bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        self.bytes = isMapped ? Array(bytes[12...]) : bytes
        self.zone = isMapped ? nil : zone
    }

    var isIPv6: Bool { bytes.count == 16 }

    /// Whether it is this machine, whatever its links are: of `127.0.0.0/8`, or `::1`.
    var isLoopback: Bool { Self.isLoopback(bytes[...]) }

    /// Whether it means something on one link only, by RFC 4291, sections 2.5.6 and 2.7.
    var isOfOneLink: Bool { isIPv6 && (Self.isLinkLocal(bytes[...]) || bytes[0] == 0xFF) }

    /// Whether the bytes are an address of `127.0.0.0/8`, or `::1`.
    static func isLoopback(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count == 16 ? bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1 : bytes.first == 127
    }

    /// Whether the bytes are an IPv6 address of `fe80::/10`.
    static func isLinkLocal(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count == 16 && bytes.starts(with: [0xFE]) && (bytes.dropFirst().first ?? 0) & 0xC0 == 0x80
    }

    /// The number of the link that the zone means now: 0 if there is no zone, and nil if there is no such link.
    var zoneIndex: UInt32? {
        guard let zone else { return 0 }
        if let number = UInt32(zone) { return number }
        let number = if_nametoindex(zone)
        return number == 0 ? nil : number
    }
}
