/// Percent-encoding (RFC 3986, section 2.1).
package enum PercentEncoding {
    /// The text with all bytes encoded that are not allowed. A `%` that encodes nothing becomes `%25`.
    ///
    /// - Parameter keepsEncodings: whether what looks like an encoding is one, and stays.
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

    /// The decoded bytes.
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

    /// The decoded bytes; nil if there is a `%` that encodes nothing.
    package static func strictlyDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        let isStrict = bytes.indices.allSatisfy {
            bytes[$0] != UInt8(ascii: "%") || escapedByte(bytes, at: $0) != nil
        }
        return isStrict ? decoded(bytes) : nil
    }

    /// The byte that a `%` and the next two digits encode; nil if they encode none.
    private static func escapedByte(_ bytes: ArraySlice<UInt8>, at index: Int) -> UInt8? {
        guard bytes[index] == UInt8(ascii: "%"), bytes.endIndex - index > 2,
            let high = ASCII.hexadecimalValue(bytes[index + 1]), let low = ASCII.hexadecimalValue(bytes[index + 2])
        else { return nil }
        return high << 4 | low
    }
}
