/// A filter for the IP addresses to which connections may be made, so that a URL from an untrusted source cannot reach
/// internal services.
///
/// The guard checks the address of each connection as it is made. It therefore cannot be bypassed by alternative
/// spellings of the host or by a name server that changes its answers. An address is
///
/// 1. refused if it is in a denied network,
/// 2. otherwise allowed if it is in an allowed network,
/// 3. otherwise subject to the kind of guard: `publicAddresses` follows IANA's registries, a guard with a list of
///    allowed networks refuses the address, and a guard without such a list allows it.
///
/// IPv4-mapped IPv6 is equivalent to IPv4: `::ffff:10.0.0.1` is the same as `10.0.0.1`, `::ffff:10.0.0.0/104` is the
/// same as `10.0.0.0/8`, and `::ffff:0:0/96` covers all of IPv4. A larger network, for example `::/0`, covers IPv6
/// only: it does not allow IPv4 addresses, and it denies IPv4 addresses that are written as IPv6.
///
/// An IPv6 address that a gateway translates to an IPv4 address (NAT64, 6to4, Teredo, ISATAP) is also refused if the
/// IPv4 address is refused, unless the IPv6 address itself is allowed. `0.0.0.0` and `::` connect to this machine. They
/// are allowed only if `127.0.0.1` or `::1` is allowed as well.
public struct AddressGuard: Sendable, Hashable {
    /// The decision for addresses that are in neither list.
    private enum Rest: Hashable {
        case allowed, refused, decidedByPurpose
    }

    /// The networks that are allowed, unless they are denied.
    public var allowedNetworks: [IPNetwork] { allowed.map(\.network) }
    /// The networks that are always refused.
    public var deniedNetworks: [IPNetwork] { denied.map(\.network) }
    private let allowed: [Entry]
    private let denied: [Entry]
    private let rest: Rest

    /// A network from a list, and its form with IPv4-mapped addresses converted to IPv4.
    private struct Entry: Hashable {
        let network: IPNetwork
        let unmapped: IPNetwork

        init(_ network: IPNetwork) {
            self.network = network
            unmapped = network.unmapped
        }
    }

    /// Creates a guard with lists of networks.
    ///
    /// - Parameters:
    ///   - allow: The only allowed networks. If empty, all networks that are not denied are allowed.
    ///   - deny: The networks to refuse, even inside an allowed network.
    public init(allow: [IPNetwork] = [], deny: [IPNetwork]) {
        self.init(allow, deny, allow.isEmpty ? .allowed : .refused)
    }

    private init(_ allow: [IPNetwork], _ deny: [IPNetwork], _ rest: Rest) {
        allowed = allow.map(Entry.init)
        denied = deny.map(Entry.init)
        self.rest = rest
    }

    /// A guard that refuses multicast addresses, and addresses that IANA's special-purpose registries do not list as
    /// globally reachable: loopback, private, link-local (including cloud metadata services) and reserved addresses.
    ///
    /// For IPv6, the guard allows only 2000::/3, except for the special networks in it, and 64:ff9b::/96 (NAT64) with a
    /// public IPv4 address.
    public static let publicAddresses = AddressGuard([], [], .decidedByPurpose)

    /// A guard that allows only 127.0.0.0/8 and ::1.
    public static let loopbackOnly = AddressGuard(
        [
            IPNetwork(bytes: [127, 0, 0, 0], 8),
            IPNetwork(bytes: [UInt8](repeating: 0, count: 15) + [1], 128),
        ], [], .refused)

    /// Returns a copy of the guard that also allows the given networks, unless they are denied.
    public func allowing(_ networks: IPNetwork...) -> AddressGuard {
        AddressGuard(allowedNetworks + networks, deniedNetworks, rest)
    }

    /// Returns a copy of the guard that also refuses the given networks.
    public func denying(_ networks: IPNetwork...) -> AddressGuard {
        AddressGuard(allowedNetworks, deniedNetworks + networks, rest)
    }

    /// Returns the reason connections to an address are refused, or nil if they are allowed.
    ///
    /// - Parameters:
    ///   - address: The address of a server or proxy.
    ///   - isProxy: Whether the address belongs to a proxy. The refusal reports this value.
    public func refusal(of address: IPAddress, isProxy: Bool = false) -> AddressRefusal? {
        let own = address.unmapped
        var all = [own] + own.embedded
        all += all.compactMap(\.loopbackOfUnspecified)
        // IPv6 networks do not contain the unmapped form, so compare the original address as well.
        for address in address == own ? all : all + [address] {
            if let entry = denied.first(where: { $0.unmapped.contains(address) }) {
                return AddressRefusal(address: own, network: entry.network, isProxy: isProxy)
            }
        }
        // An allowed address is accepted even if an embedded address is refused. For the unspecified address, the
        // loopback address must be allowed as well.
        if isAllowed(own), own.loopbackOfUnspecified.map(isAllowed) ?? true { return nil }
        for address in all where !isAllowed(address) {
            switch rest {
            case .allowed: break
            case .refused: return AddressRefusal(address: own, network: nil, isProxy: isProxy)
            case .decidedByPurpose:
                if let network = SpecialPurposeNetworks.refusing(address) {
                    return AddressRefusal(address: own, network: network, isProxy: isProxy)
                }
            }
        }
        return nil
    }

    private func isAllowed(_ address: IPAddress) -> Bool { allowed.contains { $0.unmapped.contains(address) } }
}

/// The reason an ``AddressGuard`` refused a connection.
public struct AddressRefusal: Error, Sendable, Hashable {
    /// The refused address.
    public let address: IPAddress
    /// The denied or special-purpose network that contains the address; nil if the address was refused only because no
    /// allowed network contains it.
    public let network: IPNetwork?
    /// Whether the address is that of a proxy rather than of the URL's host.
    public let isProxy: Bool

    package init(address: IPAddress, network: IPNetwork?, isProxy: Bool) {
        self.address = address
        self.network = network
        self.isProxy = isProxy
    }
}

extension AddressRefusal: CustomStringConvertible {
    /// A sentence that describes the refusal.
    public var description: String {
        let whose = isProxy ? "The proxy's address" : "The address"
        guard let network else { return "\(whose) \(address) is not in an allowed network." }
        return "\(whose) \(address) is refused because it is in \(network)."
    }
}

/// The special-purpose networks, and whether they are globally reachable: the column "Globally Reachable" of IANA's
/// registries for IPv4 and IPv6 (RFC 6890), multicast (RFC 5771, RFC 4291), and the former site-local addresses (RFC
/// 3879).
enum SpecialPurposeNetworks {
    /// Returns the special-purpose network that contains the address, or nil if the address is globally reachable.
    static func refusing(_ address: IPAddress) -> IPNetwork? {
        let table = address.isIPv6 ? six : four
        // The longest prefix takes precedence.
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
        ipv4([100, 64, 0, 0], 10),  // carrier-grade NAT
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
        // Only 2000::/3 is assigned as global (RFC 4291, section 2.4). All other addresses are refused, including the
        // unspecified address, the loopback address, `::/96` and 64:ff9b:1::/48, with one exception below.
        ipv6([], 0),
        ipv6([0, 0, 0, 0, 0, 0, 0, 0], 128),  // unspecified
        ipv6([0, 0, 0, 0, 0, 0, 0, 0], 128, last: 1),  // loopback
        ipv6([0x64, 0xFF9B], 96, isGlobal: true),  // NAT64; the embedded address is checked as well
        ipv6([0x64, 0xFF9B, 1], 48),  // NAT64 of a local network
        ipv6([0x100], 64),  // discarded
        ipv6([0x100, 0, 0, 1], 64),  // dummy
        ipv6([0x2000], 3, isGlobal: true),
        ipv6([0x2001], 23),  // protocol assignments, and of these:
        ipv6([0x2001], 32, isGlobal: true),  // Teredo; the embedded addresses are checked as well
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
