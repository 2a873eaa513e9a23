/// A set of ASCII characters. Asking it costs a shift.
struct ByteSet {
    private var low: UInt64 = 0
    private var high: UInt64 = 0

    init(_ characters: String) {
        for byte in characters.utf8 where byte < 128 {
            if byte < 64 { low |= 1 << UInt64(byte) } else { high |= 1 << UInt64(byte - 64) }
        }
    }

    func contains(_ byte: UInt8) -> Bool {
        switch byte {
        case 0..<64: low >> UInt64(byte) & 1 == 1
        case 64..<128: high >> UInt64(byte - 64) & 1 == 1
        default: false
        }
    }
}

/// The characters that may stand in each part of a URL (RFC 3986, section 2 and appendix A). `%` is in none of them:
/// it stands where two hexadecimal digits follow it.
extension ByteSet {
    private static let plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;="

    /// Names of hosts: unreserved characters and sub-delimiters.
    static let host = ByteSet(plain)
    static let userInfo = ByteSet(plain + ":")
    static let path = ByteSet(plain + ":@/")
    /// Queries and fragments.
    static let query = ByteSet(plain + ":@/?")
    static let scheme = ByteSet("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.")
}

/// Percent-encoding (RFC 3986, section 2.1).
enum PercentEncoding {
    /// The text with every byte encoded that is not allowed. What is encoded already stays as it is; a `%` that
    /// encodes nothing becomes `%25`.
    static func encoded(_ bytes: ArraySlice<UInt8>, allowing allowed: ByteSet) -> ArraySlice<UInt8> {
        if bytes.allSatisfy(allowed.contains) { return bytes }
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count + 16)
        for index in bytes.indices {
            let byte = bytes[index]
            if byte == UInt8(ascii: "%") ? escapedByte(bytes, at: index) != nil : allowed.contains(byte) {
                output.append(byte)
            } else {
                output += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return output[...]
    }

    /// The bytes that are meant.
    static func decoded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var output: [UInt8] = []
        var index = bytes.startIndex
        while index < bytes.endIndex {
            let byte = escapedByte(bytes, at: index)
            output.append(byte ?? bytes[index])
            index += byte == nil ? 1 : 3
        }
        return output
    }

    private static let digits = Array("0123456789ABCDEF".utf8)

    /// What a `%` and the two digits behind it stand for.
    private static func escapedByte(_ bytes: ArraySlice<UInt8>, at index: Int) -> UInt8? {
        guard bytes[index] == UInt8(ascii: "%"), bytes.endIndex - index > 2,
            let high = value(bytes[index + 1]), let low = value(bytes[index + 2])
        else { return nil }
        return high << 4 | low
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
