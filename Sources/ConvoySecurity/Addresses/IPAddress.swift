import ConvoySupport
import Foundation

/// An IPv4 or IPv6 address.
public struct IPAddress: Sendable, Hashable {
    /// The four or sixteen bytes, in network byte order.
    public let bytes: [UInt8]

    /// Creates an address from a string: IPv4 in dotted decimal, or IPv6 in any of its spellings (RFC 4291, section
    /// 2.2), without brackets or a zone. Returns nil for any other string, for example `127.1` or `0x7f.0.0.1`.
    public init?(_ text: String) {
        // `inet_pton` would treat a zero byte as the end of the string.
        guard !text.utf8.contains(0) else { return nil }
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 {
            self.bytes = Array(bytes[..<4])
        } else if inet_pton(AF_INET6, text, &bytes) == 1 {
            self.bytes = bytes
        } else {
            return nil
        }
    }

    /// Creates an address from four or sixteen bytes. Returns nil for any other number of bytes.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Creates an address from a socket address. Returns nil for other address families.
    package init?(_ address: UnsafePointer<sockaddr>) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            bytes = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin_addr) { Array($0) }
            }
        case AF_INET6:
            bytes = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin6_addr) { Array($0) }
            }
        default: return nil
        }
    }

    /// Whether the address is an IPv6 address.
    public var isIPv6: Bool { bytes.count == 16 }

    /// The address that the system connects to: the IPv4 address of an IPv4-mapped address like `::ffff:127.0.0.1` (RFC
    /// 4291, section 2.5.5.2), and the address itself otherwise.
    var unmapped: IPAddress {
        guard isIPv6, bytes.starts(with: Self.mappedPrefix) else { return self }
        return IPAddress(four: bytes[12...])
    }

    private static let mappedPrefix: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]

    /// The IPv4 addresses to which a gateway may translate this address.
    ///
    /// The result covers NAT64 with the well-known prefix (RFC 6052), 6to4 (RFC 3056), Teredo (client and server, RFC
    /// 4380), ISATAP (RFC 5214), and the deprecated form `::127.0.0.1` (RFC 4291, section 2.5.5.1).
    var embedded: [IPAddress] {
        guard bytes.count == 16 else { return [] }
        var found: [IPAddress] = []
        if Self.translated.contains(self) { found.append(IPAddress(four: bytes[12...])) }
        if bytes[0] == 0x20, bytes[1] == 0x02 { found.append(IPAddress(four: bytes[2..<6])) }
        if bytes.starts(with: [0x20, 0x01, 0, 0]) {
            found.append(IPAddress(four: bytes[4..<8]))
            found.append(IPAddress(four: bytes[12...].map { ~$0 }[...]))
        }
        if bytes[8] & 0xFD == 0, bytes[9...].starts(with: [0, 0x5E, 0xFE]) {
            found.append(IPAddress(four: bytes[12...]))
        }
        if bytes[..<12].allSatisfy({ $0 == 0 }), bytes[12] != 0 || bytes[13] != 0 || bytes[14] != 0 || bytes[15] > 1 {
            found.append(IPAddress(four: bytes[12...]))
        }
        return found
    }

    /// The loopback address to which the system connects for an unspecified address (`0.0.0.0`, `::`); nil for other
    /// addresses.
    var loopbackOfUnspecified: IPAddress? {
        guard bytes.allSatisfy({ $0 == 0 }) else { return nil }
        return IPAddress(unchecked: isIPv6 ? [UInt8](repeating: 0, count: 15) + [1] : [127, 0, 0, 1])
    }

    private static let translated = IPNetwork(bytes: [0, 0x64, 0xFF, 0x9B] + [UInt8](repeating: 0, count: 12), 96)

    private init(four: ArraySlice<UInt8>) { bytes = Array(four) }

    /// The unspecified address, `::`.
    package static let unspecified = IPAddress(unchecked: [UInt8](repeating: 0, count: 16))

    fileprivate init(unchecked bytes: [UInt8]) { self.bytes = bytes }
}

extension IPAddress: CustomStringConvertible {
    /// The address in its canonical text form (RFC 5952).
    public var description: String { HostName.text(ofAddress: bytes) }
}

extension IPNetwork {
    /// The IPv4 network for a network inside `::ffff:0:0/96`, and the network itself otherwise.
    var unmapped: IPNetwork {
        let inside = address.unmapped
        return prefixLength >= 96 && inside != address ? IPNetwork(inside, prefixLength - 96) : self
    }

    /// Creates a network from constants. The number of bytes is not checked.
    init(bytes: [UInt8], _ prefixLength: Int) {
        self.init(IPAddress(unchecked: bytes), prefixLength)
    }
}
