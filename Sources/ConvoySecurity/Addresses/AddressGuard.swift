/// Which IP addresses may be connected to, so that a URL from outside cannot lead to a service that is not for everybody.
///
/// It judges the address of each connection, whatever the host in the URL is called, however an address is spelled there,
/// and whatever the name server says the second time. An address is
///
/// 1. refused if it is in a network that is denied,
/// 2. else let through if it is in a network that is allowed,
/// 3. else treated as all others: by `publicAddresses` as IANA's registries say, by a guard with a list of allowed
///    networks refused, and by one without let through.
///
/// `::ffff:10.0.0.1` is the same as `10.0.0.1`. An IPv6 address behind which a gateway sends on to an IPv4 address (NAT64,
/// 6to4, Teredo, ISATAP) is refused as well where the IPv4 address would be, unless the IPv6 address itself is allowed.
public struct AddressGuard: Sendable, Hashable {
    /// How addresses in no list are treated.
    private enum Rest: Hashable {
        case allowed, refused, judgedByPurpose
    }

    /// The networks that are let through, if they are not denied.
    public private(set) var allowedNetworks: [IPNetwork]
    /// The networks that are refused in any case.
    public private(set) var deniedNetworks: [IPNetwork]
    private let rest: Rest

    /// A guard with lists of its own.
    ///
    /// - Parameters:
    ///   - allow: all that is let through; everything that is not denied, if it is empty.
    ///   - deny: what is refused, even where it is in a network that is allowed.
    public init(allow: [IPNetwork] = [], deny: [IPNetwork]) {
        self.init(allow, deny, allow.isEmpty ? .allowed : .refused)
    }

    private init(_ allow: [IPNetwork], _ deny: [IPNetwork], _ rest: Rest) {
        allowedNetworks = allow
        deniedNetworks = deny
        self.rest = rest
    }

    /// Refuses whatever IANA's registries of special-purpose addresses do not call globally reachable, and multicast:
    /// loopback, private networks, link-local addresses and with them the metadata of clouds, and all reserved ones.
    ///
    /// Of IPv6 it lets only 2000::/3 through, without its special networks, and 64:ff9b::/96 (NAT64) with a public
    /// address inside.
    public static let publicAddresses = AddressGuard([], [], .judgedByPurpose)

    /// Lets only 127.0.0.0/8 and ::1 through.
    public static let loopbackOnly = AddressGuard(
        [
            IPNetwork(bytes: [127, 0, 0, 0], 8),
            IPNetwork(bytes: [UInt8](repeating: 0, count: 15) + [1], 128),
        ], [], .refused)

    /// The same guard, but for these networks, which are let through unless they are denied.
    public func allowing(_ networks: IPNetwork...) -> AddressGuard {
        AddressGuard(allowedNetworks + networks, deniedNetworks, rest)
    }

    /// The same guard, but for these networks, which are refused.
    public func denying(_ networks: IPNetwork...) -> AddressGuard {
        AddressGuard(allowedNetworks, deniedNetworks + networks, rest)
    }

    /// Why an address may not be connected to; nil if it may.
    ///
    /// - Parameters:
    ///   - address: of a server.
    ///   - isProxy: whether it is the address of a proxy, for the refusal.
    public func refusal(of address: IPAddress, isProxy: Bool = false) -> AddressRefusal? {
        let own = address.unmapped
        let all = [own] + own.embedded
        for address in all {
            if let network = deniedNetworks.first(where: { $0.contains(address) }) {
                return AddressRefusal(address: own, network: network, isProxy: isProxy)
            }
        }
        if isAllowed(own) { return nil }
        for address in all where !isAllowed(address) {
            switch rest {
            case .allowed: break
            case .refused: return AddressRefusal(address: own, network: nil, isProxy: isProxy)
            case .judgedByPurpose:
                if let network = SpecialPurposeNetworks.refusing(address) {
                    return AddressRefusal(address: own, network: network, isProxy: isProxy)
                }
            }
        }
        return nil
    }

    private func isAllowed(_ address: IPAddress) -> Bool { allowedNetworks.contains { $0.contains(address) } }
}
