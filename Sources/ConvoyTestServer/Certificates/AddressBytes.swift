import Foundation

/// IP addresses and networks as the bytes that certificates have.
enum AddressBytes {
    /// The 4 or 16 bytes of an address; nil if it is not one.
    static func address(_ text: String) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 { return Array(bytes[..<4]) }
        return inet_pton(AF_INET6, text, &bytes) == 1 ? bytes : nil
    }

    /// The 8 or 32 bytes of a network such as "10.0.0.0/8", an address and a mask; nil if it is not one.
    static func network(_ text: String) -> [UInt8]? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let address = address(String(parts[0])), let count = Int(parts[1]),
            (0...(address.count * 8)).contains(count)
        else { return nil }
        let mask = address.indices.map { index in
            UInt8(truncatingIfNeeded: 0xFF00 >> min(8, max(0, count - index * 8)))
        }
        return address + mask
    }
}
