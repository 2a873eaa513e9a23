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
/// `::ffff:10.0.0.1` is the same as `10.0.0.1`, and so is `::ffff:10.0.0.0/104` the same as `10.0.0.0/8`, and
/// `::ffff:0:0/96` all of IPv4. A larger network, such as `::/0`, is one of IPv6 only: it allows no IPv4 address, and
/// denies those that are written as IPv6.
///
/// An IPv6 address behind which a gateway sends on to an IPv4 address (NAT64, 6to4, Teredo, ISATAP) is refused as well
/// where the IPv4 address would be, unless the IPv6 address itself is allowed. `0.0.0.0` and `::` lead to this machine:
/// they are let through only where `127.0.0.1` or `::1` is, too.
public struct AddressGuard: Sendable, Hashable {
    /// How addresses in no list are treated.
    private enum Rest: Hashable {
        case allowed, refused, judgedByPurpose
    }

    /// The networks that are let through, if they are not denied.
    public var allowedNetworks: [IPNetwork] { allowed.map(\.network) }
    /// The networks that are refused in any case.
    public var deniedNetworks: [IPNetwork] { denied.map(\.network) }
    private let allowed: [Entry]
    private let denied: [Entry]
    private let rest: Rest

    /// A network of a list, and the same without the form of IPv6 for addresses of IPv4.
    private struct Entry: Hashable {
        let network: IPNetwork
        let unmapped: IPNetwork

        init(_ network: IPNetwork) { (self.network, unmapped) = (network, network.unmapped) }
    }

    /// A guard with lists of its own.
    ///
    /// - Parameters:
    ///   - allow: all that is let through; everything that is not denied, if it is empty.
    ///   - deny: what is refused, even where it is in a network that is allowed.
    public init(allow: [IPNetwork] = [], deny: [IPNetwork]) {
        self.init(allow, deny, allow.isEmpty ? .allowed : .refused)
    }

    private init(_ allow: [IPNetwork], _ deny: [IPNetwork], _ rest: Rest) {
        allowed = allow.map(Entry.init)
        denied = deny.map(Entry.init)
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
        var all = [own] + own.embedded
        all += all.compactMap(\.loopbackOfUnspecified)
        // As it is written, an address can be in a network of IPv6 that has no part of IPv4's.
        for address in address == own ? all : all + [address] {
            if let entry = denied.first(where: { $0.unmapped.contains(address) }) {
                return AddressRefusal(address: own, network: entry.network, isProxy: isProxy)
            }
        }
        // Where it is let through, what is inside does not matter, but for where the system itself connects to.
        if isAllowed(own), own.loopbackOfUnspecified.map(isAllowed) ?? true { return nil }
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

    private func isAllowed(_ address: IPAddress) -> Bool { allowed.contains { $0.unmapped.contains(address) } }
}
