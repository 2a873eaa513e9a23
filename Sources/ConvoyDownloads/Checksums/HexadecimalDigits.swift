import ConvoySupport
import Foundation

/// Bytes written as hexadecimal digits (RFC 4648, section 8).
enum HexadecimalDigits {
    /// The bytes; nil if a character is no digit of either case, or if their number is odd.
    static func bytes(of digits: some Collection<UInt8>) -> Data? {
        guard digits.count % 2 == 0 else { return nil }
        var data = Data(capacity: digits.count / 2)
        var high: UInt8?
        for digit in digits {
            guard let value = ASCII.hexadecimalValue(digit) else { return nil }
            if let first = high {
                data.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return data
    }
}
