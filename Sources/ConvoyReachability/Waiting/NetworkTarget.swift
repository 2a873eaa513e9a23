/// What a connection needs a way to: the address of a host or, as the addresses of a name are not known without a network,
/// the network as a whole.
package struct NetworkTarget: Hashable, Sendable {
    let addresses: [HostAddress]

    /// The host where it is a name, whose addresses can be looked up.
    let name: String?

    /// Whether the host is an address, so that it is certain what is connected to.
    package let isAddress: Bool

    /// - Parameter host: a name or an address, as in a URL.
    package init(host: String) {
        let address = HostAddress(host)
        isAddress = address != nil
        name = address == nil ? host : nil
        addresses = address.map { [$0] } ?? AddressSource.outside
    }

    /// Whether the kernel says now that the way is over a mobile network. False as well where it says nothing. Blocks for no
    /// longer than a few system calls.
    package var isOverCellular: Bool { (try? PathFinder())?.status(of: addresses) == .reachableViaWWAN }

    /// Whether the kernel says now that there is no way: to the address, or to the network as a whole, as a name is not looked
    /// up here. False as well where it says nothing. Blocks for no longer than a few system calls.
    package var isOutOfReach: Bool { (try? PathFinder())?.status(of: addresses) == .notReachable }
}
