import Foundation

/// All addresses that begin with the same bits, such as `10.0.0.0/8` (RFC 4632, section 3.1; RFC 4291, section 2.3).
public struct IPNetwork: Sendable, Hashable {
    /// Its first address.
    public let address: IPAddress
    /// How many bits its addresses share.
    public let prefixLength: Int

    /// A network from text: an address, a slash, and the number of bits; or an address alone, which is a network of
    /// itself.
    ///
    /// It is strict, as somebody's mistake would let through what was to be kept out: four decimal numbers for IPv4, no
    /// brackets, no leading zeros, and no bits set after the first `prefixLength`.
    ///
    /// - Throws: `IPNetworkError`.
    public init(_ text: String) throws(IPNetworkError) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPAddress(String(parts[0])) else { throw .notAnAddress(String(parts[0])) }
        let size = address.bytes.count * 8
        var length = size
        if parts.count == 2 {
            guard parts[1].utf8.count <= 3, let number = Int(parts[1]), "\(number)" == parts[1], (0...size).contains(number)
            else { throw .notALength(String(parts[1])) }
            length = number
        }
        self.init(address, length)
        guard Self.first(of: address, length) == address.bytes else { throw .hasBitsAfterLength(text) }
    }

    init(_ address: IPAddress, _ prefixLength: Int) {
        self.address = address
        self.prefixLength = prefixLength
    }

    /// An address without the bits after the first ones.
    private static func first(of address: IPAddress, _ length: Int) -> [UInt8] {
        address.bytes.enumerated().map { index, byte in byte & mask(of: index, length) }
    }

    private static func mask(of index: Int, _ length: Int) -> UInt8 {
        let bits = length - index * 8
        return bits >= 8 ? 0xFF : bits <= 0 ? 0 : ~(0xFF >> UInt8(bits))
    }

    /// Whether an address is one of the network's. An address of the other family never is, nor is `::ffff:10.0.0.1` one
    /// of `10.0.0.0/8`; an `AddressGuard` takes such an address for the one inside before it asks.
    public func contains(_ other: IPAddress) -> Bool {
        guard other.bytes.count == address.bytes.count else { return false }
        var index = 0
        while index * 8 < prefixLength {
            if (other.bytes[index] ^ address.bytes[index]) & Self.mask(of: index, prefixLength) != 0 { return false }
            index += 1
        }
        return true
    }
}

extension IPNetwork: CustomStringConvertible {
    /// The network as text that can be read again.
    public var description: String { "\(address)/\(prefixLength)" }
}
