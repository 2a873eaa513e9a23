import ConvoySupport

/// The value of a parameter with a charset (RFC 8187, section 3.2): `UTF-8''na%C3%AFve.txt`.
enum ExtendedValue {
    /// The text; nil for another charset than UTF-8 and ISO-8859-1, for a `%` that encodes nothing, and for bytes that
    /// are no text.
    static func text(of value: ArraySlice<UInt8>) -> String? {
        let parts = value.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = decoded(parts[2]) else { return nil }
        let name = parts[0]
        if ASCII.equalIgnoringCase(name, "utf-8".utf8) || ASCII.equalIgnoringCase(name, "utf8".utf8) {
            return nonempty(String(validating: bytes, as: UTF8.self))
        }
        // Characters beyond ASCII that are not encoded are in the field's own charset, not in this one.
        guard ASCII.equalIgnoringCase(name, "iso-8859-1".utf8), parts[2].allSatisfy({ $0 < 0x80 }) else { return nil }
        return nonempty(String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) })))
    }

    private static func nonempty(_ text: String?) -> String? { text?.isEmpty == true ? nil : text }

    private static func decoded(_ value: ArraySlice<UInt8>) -> [UInt8]? {
        for index in value.indices where value[index] == UInt8(ascii: "%") {
            let digits = value[(index + 1)...].prefix(2)
            guard digits.count == 2, digits.allSatisfy(ASCII.isHexadecimal) else { return nil }
        }
        return PercentEncoding.decoded(value)
    }
}
