/// An address to which an `AddressGuard` did not let a connection be made.
public struct AddressRefusal: Error, Sendable, Hashable {
    /// The address.
    public let address: IPAddress
    /// The network by which it was refused; nil if it is simply in none of those that are allowed.
    public let network: IPNetwork?
    /// Whether it is the address of a proxy, and not of the URL's host.
    public let isProxy: Bool

    package init(address: IPAddress, network: IPNetwork?, isProxy: Bool) {
        self.address = address
        self.network = network
        self.isProxy = isProxy
    }
}

extension AddressRefusal: CustomStringConvertible {
    /// The refusal in a sentence.
    public var description: String {
        let whose = isProxy ? "The proxy's address" : "The address"
        guard let network else { return "\(whose) \(address) is not one of those that may be connected to." }
        return "\(whose) \(address) may not be connected to, as it is in \(network)."
    }
}
