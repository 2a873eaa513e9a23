import ConvoySupport
import Foundation

/// The IP addresses that begin with the same bits, such as `10.0.0.0/8` (RFC 4632, section 3.1; RFC 4291, section 2.3).
public struct IPNetwork: Sendable, Hashable {
    /// The first address of the network.
    public let address: IPAddress
    /// How many bits its addresses share.
    public let prefixLength: Int

    /// A network from text: an address, a slash, and the number of bits; or an address alone, for a network of one
    /// address.
    ///
    /// It is strict, as a misread mistake could allow what was meant to be refused: four decimal numbers for IPv4, no
    /// brackets, no leading zeros, and no bits set after the first `prefixLength`.
    ///
    /// - Throws: `SecurityTextError`.
    public init(_ text: String) throws(SecurityTextError) {
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

    /// The bytes of an address with all bits after the prefix cleared.
    private static func first(of address: IPAddress, _ length: Int) -> [UInt8] {
        address.bytes.enumerated().map { index, byte in byte & mask(of: index, length) }
    }

    private static func mask(of index: Int, _ length: Int) -> UInt8 {
        let bits = length - index * 8
        return bits >= 8 ? 0xFF : bits <= 0 ? 0 : ~(0xFF >> UInt8(bits))
    }

    /// Whether the network contains an address. It contains none of the other family, so that `10.0.0.0/8` does not
    /// contain `::ffff:10.0.0.1`; an ``AddressGuard`` unmaps such an address first.
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
    /// The network in the form that ``init(_:)`` reads.
    public var description: String { "\(address)/\(prefixLength)" }
}

/// Why a text is not what the security settings are made of: a pin, a pattern of hosts, or a network of IP addresses.
public enum SecurityTextError: Error, Hashable, Sendable, SelfDescribingError {
    /// The text is not a ``PublicKeyPin``.
    case notAPin(String)
    /// The text is not a ``HostPattern``.
    case notAHostPattern(String)
    /// What precedes the slash of an ``IPNetwork`` is not an address.
    case notAnAddress(String)
    /// What follows the slash of an ``IPNetwork`` is not a number of bits that the address has.
    case notALength(String)
    /// Bits after the prefix of an ``IPNetwork`` are set, so that either the address or the number of bits is a mistake.
    case hasBitsAfterLength(String)

    public var description: String {
        switch self {
        case .notAPin(let text):
            "\(text.debugDescription) is not a pin: it has to be \"sha256/\" and the base64 of 32 bytes."
        case .notAHostPattern(let text):
            "\(text.debugDescription) is not a pattern of hosts: a name, \"*.\" and a name, or \"**.\" and a name."
        case .notAnAddress(let text): "\(text.debugDescription) is not an IP address."
        case .notALength(let text): "\(text.debugDescription) is not the number of bits of a network."
        case .hasBitsAfterLength(let text): "\(text.debugDescription) has bits set that are not part of the network."
        }
    }
}
