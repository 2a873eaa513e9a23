import CEpoll
import ConvoySupport
import Foundation

/// An IPv4 or IPv6 address with an optional zone.
struct HostAddress: Hashable, Sendable {
    /// Four or sixteen bytes in network order.
    let bytes: [UInt8]
    /// The zone of an IPv6 address: the link's name, or its index as text.
    let zone: String?

    /// An address from text, such as `192.0.2.1`, `2001:db8::1`, `[::1]` or `fe80::1%eth0`; nil for anything else.
    init?(_ text: String) {
        // The C functions below would stop at a zero byte.
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

    /// An address from a `sockaddr`; nil for another family.
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

    /// Converts an IPv4-mapped IPv6 address, such as `::ffff:192.0.2.1`, to the IPv4 address (RFC 4291, 2.5.5.2).
    private init(bytes: [UInt8], zone: String?) {
        let isMapped = bytes.count == 16 && bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        self.bytes = isMapped ? Array(bytes[12...]) : bytes
        self.zone = isMapped ? nil : zone
    }

    var isIPv6: Bool { bytes.count == 16 }

    /// Whether it is a loopback address: in `127.0.0.0/8`, or `::1`.
    var isLoopback: Bool { Self.isLoopback(bytes[...]) }

    /// Whether its scope is a single link (RFC 4291, sections 2.5.6 and 2.7).
    var isOfOneLink: Bool { isIPv6 && (Self.isLinkLocal(bytes[...]) || bytes[0] == 0xFF) }

    /// Whether the bytes are an address in `127.0.0.0/8`, or `::1`.
    static func isLoopback(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count == 16 ? bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1 : bytes.first == 127
    }

    /// Whether the bytes are an IPv6 address in `fe80::/10`.
    static func isLinkLocal(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count == 16 && bytes.starts(with: [0xFE]) && (bytes.dropFirst().first ?? 0) & 0xC0 == 0x80
    }

    /// The interface index of the zone; 0 without a zone, nil if there is no such interface.
    var zoneIndex: UInt32? {
        guard let zone else { return 0 }
        if let number = UInt32(zone) { return number }
        let number = if_nametoindex(zone)
        return number == 0 ? nil : number
    }
}
