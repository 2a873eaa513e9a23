/// The networks that are not like any other, and whether they can be reached from everywhere: IANA's registries of
/// special-purpose IPv4 and IPv6 addresses (RFC 6890) with their column "Globally Reachable", multicast (RFC 5771, RFC
/// 4291), and the former site-local addresses (RFC 3879).
enum SpecialPurposeNetworks {
    /// The network that keeps an address from being reachable from everywhere; nil for one that is.
    static func refusing(_ address: IPAddress) -> IPNetwork? {
        let table = address.isIPv6 ? six : four
        // The longest prefix counts.
        var best: Entry?
        for entry in table where entry.network.contains(address) {
            if entry.network.prefixLength > best?.network.prefixLength ?? -1 { best = entry }
        }
        guard let best, !best.isGlobal else { return nil }
        return best.network
    }

    private struct Entry {
        let network: IPNetwork
        let isGlobal: Bool
    }

    private static func ipv4(_ bytes: [UInt8], _ length: Int, isGlobal: Bool = false) -> Entry {
        Entry(network: IPNetwork(bytes: bytes, length), isGlobal: isGlobal)
    }

    private static func ipv6(_ groups: [UInt16], _ length: Int, isGlobal: Bool = false, last: UInt8 = 0) -> Entry {
        var bytes = groups.flatMap { [UInt8($0 >> 8), UInt8(truncatingIfNeeded: $0)] }
        bytes += [UInt8](repeating: 0, count: 16 - bytes.count)
        bytes[15] |= last
        return Entry(network: IPNetwork(bytes: bytes, length), isGlobal: isGlobal)
    }

    private static let four: [Entry] = [
        ipv4([0, 0, 0, 0], 8),  // this network
        ipv4([10, 0, 0, 0], 8),  // private
        ipv4([100, 64, 0, 0], 10),  // between a provider and its customers
        ipv4([127, 0, 0, 0], 8),  // loopback
        ipv4([169, 254, 0, 0], 16),  // link-local, where clouds keep their metadata
        ipv4([172, 16, 0, 0], 12),  // private
        ipv4([192, 0, 0, 0], 24),  // protocol assignments, and of these:
        ipv4([192, 0, 0, 9], 32, isGlobal: true),  // PCP anycast
        ipv4([192, 0, 0, 10], 32, isGlobal: true),  // TURN anycast
        ipv4([192, 0, 2, 0], 24),  // documentation
        ipv4([192, 88, 99, 0], 24),  // formerly relays of 6to4
        ipv4([192, 168, 0, 0], 16),  // private
        ipv4([198, 18, 0, 0], 15),  // benchmarking
        ipv4([198, 51, 100, 0], 24),  // documentation
        ipv4([203, 0, 113, 0], 24),  // documentation
        ipv4([224, 0, 0, 0], 4),  // multicast
        ipv4([240, 0, 0, 0], 4),  // reserved
        ipv4([255, 255, 255, 255], 32),  // broadcast
    ]

    private static let six: [Entry] = [
        // Only 2000::/3 is assigned to be global (RFC 4291, section 2.4). The rest, with the unspecified address, the
        // loopback address, `::/96` and 64:ff9b:1::/48, is not, but for one network.
        ipv6([], 0),
        ipv6([0, 0, 0, 0, 0, 0, 0, 0], 128),  // unspecified
        ipv6([0, 0, 0, 0, 0, 0, 0, 0], 128, last: 1),  // loopback
        ipv6([0x64, 0xFF9B], 96, isGlobal: true),  // NAT64; the address inside is judged as well
        ipv6([0x64, 0xFF9B, 1], 48),  // NAT64 of a network's own
        ipv6([0x100], 64),  // discarded
        ipv6([0x100, 0, 0, 1], 64),  // dummy
        ipv6([0x2000], 3, isGlobal: true),
        ipv6([0x2001], 23),  // protocol assignments, and of these:
        ipv6([0x2001], 32, isGlobal: true),  // Teredo; the addresses inside are judged as well
        ipv6([0x2001, 1], 128, isGlobal: true, last: 1),  // PCP anycast
        ipv6([0x2001, 1], 128, isGlobal: true, last: 2),  // TURN anycast
        ipv6([0x2001, 1], 128, isGlobal: true, last: 3),  // SRP anycast
        ipv6([0x2001, 2], 48),  // benchmarking
        ipv6([0x2001, 3], 32, isGlobal: true),  // AMT
        ipv6([0x2001, 4, 0x112], 48, isGlobal: true),  // AS112
        ipv6([0x2001, 0x10], 28),  // formerly ORCHID
        ipv6([0x2001, 0x20], 28, isGlobal: true),  // ORCHIDv2
        ipv6([0x2001, 0x30], 28, isGlobal: true),  // drones
        ipv6([0x2001, 0xDB8], 32),  // documentation
        ipv6([0x3FFF], 20),  // documentation
        ipv6([0x5F00], 16),  // segment routing
        ipv6([0xFC00], 7),  // unique local
        ipv6([0xFE80], 10),  // link-local
        ipv6([0xFEC0], 10),  // formerly site-local
        ipv6([0xFF00], 8),  // multicast
    ]
}
