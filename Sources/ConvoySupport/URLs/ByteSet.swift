/// A set of ASCII characters, as a bit set.
@usableFromInline package struct ByteSet: Sendable {
    @usableFromInline var low: UInt64 = 0
    @usableFromInline var high: UInt64 = 0

    init(_ characters: String) {
        for byte in characters.utf8 where byte < 128 {
            if byte < 64 { low |= 1 << UInt64(byte) } else { high |= 1 << UInt64(byte - 64) }
        }
    }

    @inlinable package func contains(_ byte: UInt8) -> Bool {
        switch byte {
        case 0..<64: low >> UInt64(byte) & 1 == 1
        case 64..<128: high >> UInt64(byte - 64) & 1 == 1
        default: false
        }
    }
}

/// The characters that are allowed in each part of a URL (RFC 3986, section 2 and appendix A). `%` is in none of these
/// sets: it is only allowed before two hexadecimal digits.
extension ByteSet {
    private static let plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;="

    /// Host names: unreserved characters and sub-delimiters.
    static let host = ByteSet(plain)
    static let userInfo = ByteSet(plain + ":")
    static let path = ByteSet(plain + ":@/")
    /// Queries and fragments.
    package static let query = ByteSet(plain + ":@/?")
    static let scheme = ByteSet("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.")
}
