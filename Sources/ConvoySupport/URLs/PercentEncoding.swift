/// Percent-encoding (RFC 3986, section 2.1).
package enum PercentEncoding {
    /// Encodes all bytes that are not allowed. A `%` that is not part of a valid escape becomes `%25`.
    ///
    /// - Parameter keepsEncodings: Whether to keep existing escapes.
    package static func encoded(
        _ bytes: ArraySlice<UInt8>, allowing allowed: ByteSet, keepsEncodings: Bool = true
    ) -> ArraySlice<UInt8> {
        if bytes.allSatisfy(allowed.contains) { return bytes }
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count + 16)
        for index in bytes.indices {
            let byte = bytes[index]
            let isEncoding = keepsEncodings && escapedByte(bytes, at: index) != nil
            if isEncoding || allowed.contains(byte) {
                output.append(byte)
            } else {
                output.append(UInt8(ascii: "%"))
                output.append(ASCII.hexadecimalDigit(byte >> 4, uppercase: true))
                output.append(ASCII.hexadecimalDigit(byte & 15, uppercase: true))
            }
        }
        return output[...]
    }

    /// Decodes all escapes.
    package static func decoded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var output: [UInt8] = []
        var index = bytes.startIndex
        while index < bytes.endIndex {
            let byte = escapedByte(bytes, at: index)
            output.append(byte ?? bytes[index])
            index += byte == nil ? 1 : 3
        }
        return output
    }

    /// Decodes all escapes. Returns nil if a `%` is not part of a valid escape.
    package static func strictlyDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        let isStrict = bytes.indices.allSatisfy {
            bytes[$0] != UInt8(ascii: "%") || escapedByte(bytes, at: $0) != nil
        }
        return isStrict ? decoded(bytes) : nil
    }

    /// Returns the byte encoded by a `%` and the next two digits, or nil if they are not a valid escape.
    private static func escapedByte(_ bytes: ArraySlice<UInt8>, at index: Int) -> UInt8? {
        guard bytes[index] == UInt8(ascii: "%"), bytes.endIndex - index > 2,
            let high = ASCII.hexadecimalValue(bytes[index + 1]), let low = ASCII.hexadecimalValue(bytes[index + 2])
        else { return nil }
        return high << 4 | low
    }
}

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

/// The characters allowed in each part of a URL (RFC 3986, section 2 and appendix A). None of these sets contains `%`,
/// which is allowed only before two hexadecimal digits.
extension ByteSet {
    private static let plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;="

    /// The characters of host names: unreserved characters and sub-delimiters.
    static let host = ByteSet(plain)
    static let userInfo = ByteSet(plain + ":")
    static let path = ByteSet(plain + ":@/")
    /// The characters of queries and fragments.
    package static let query = ByteSet(plain + ":@/?")
    static let scheme = ByteSet("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.")
}
