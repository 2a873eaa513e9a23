import ConvoySupport
import Foundation

/// The IP addresses that share a prefix, for example `10.0.0.0/8` (RFC 4632, section 3.1; RFC 4291, section 2.3).
public struct IPNetwork: Sendable, Hashable {
    /// The first address of the network.
    public let address: IPAddress
    /// The number of leading bits that its addresses share.
    public let prefixLength: Int

    /// Creates a network from a string: an address, a slash and the number of bits. An address alone creates a network
    /// that contains a single address.
    ///
    /// Parsing is strict, because a misinterpreted typo could allow a network that should be refused. IPv4 addresses
    /// must be in dotted decimal without leading zeros, brackets are not allowed, and no bits may be set after the
    /// first `prefixLength` bits.
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

    /// Returns the bytes of an address, with all bits after the prefix cleared.
    private static func first(of address: IPAddress, _ length: Int) -> [UInt8] {
        address.bytes.enumerated().map { index, byte in byte & mask(of: index, length) }
    }

    private static func mask(of index: Int, _ length: Int) -> UInt8 {
        let bits = length - index * 8
        return bits >= 8 ? 0xFF : bits <= 0 ? 0 : ~(0xFF >> UInt8(bits))
    }

    /// Returns whether the network contains an address. IPv4 and IPv6 are distinct: `10.0.0.0/8` does not contain
    /// `::ffff:10.0.0.1`, but an ``AddressGuard`` converts such an address to IPv4 first.
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
    /// The network in the form that ``init(_:)`` parses.
    public var description: String { "\(address)/\(prefixLength)" }
}

/// An error for a string that is not a valid pin, host pattern or network of IP addresses.
public enum SecurityTextError: Error, Hashable, Sendable, SelfDescribingError {
    /// The string is not a ``PublicKeyPin``.
    case notAPin(String)
    /// The pin of a certificate is nil, because its public key cannot be read.
    case unreadableKey
    /// The string is not a ``HostPattern``.
    case notAHostPattern(String)
    /// The part before the slash of an ``IPNetwork`` is not an address.
    case notAnAddress(String)
    /// The part after the slash of an ``IPNetwork`` is not a valid number of bits for the address.
    case notALength(String)
    /// Bits after the prefix of an ``IPNetwork`` are set, so either the address or the number of bits is wrong.
    case hasBitsAfterLength(String)

    public var description: String {
        switch self {
        case .notAPin(let text):
            "Invalid pin \(text.debugDescription): use \"sha256/\" followed by the Base64 of 32 bytes."
        case .unreadableKey: "The public key of a certificate cannot be read, so it cannot be pinned."
        case .notAHostPattern(let text):
            "Invalid host pattern \(text.debugDescription): use a form such as \"example.com\", "
                + "\"*.example.com\" or \"**.example.com\"."
        case .notAnAddress(let text): "Invalid IP address \(text.debugDescription): use a numeric IPv4 or IPv6 address."
        case .notALength(let text):
            "Invalid prefix length \(text.debugDescription): use 0 to 32 for IPv4, or 0 to 128 for IPv6."
        case .hasBitsAfterLength(let text):
            "Invalid network \(text.debugDescription): all bits after the prefix must be zero."
        }
    }
}
