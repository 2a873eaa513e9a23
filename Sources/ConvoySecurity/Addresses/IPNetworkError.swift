/// Why text is not a network of IP addresses.
public enum IPNetworkError: Error, Sendable, Hashable {
    /// What precedes the slash is not an address.
    case notAnAddress(String)
    /// What follows the slash is not a number of bits that the address has.
    case notALength(String)
    /// There are bits set that do not count, so that either the address or the number of bits is a mistake.
    case hasBitsAfterLength(String)
}

extension IPNetworkError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .notAnAddress(let text): "\(text.debugDescription) is not an IP address."
        case .notALength(let text): "\(text.debugDescription) is not the number of bits of a network."
        case .hasBitsAfterLength(let text): "\(text.debugDescription) has bits set that are not part of the network."
        }
    }
}
