import ConvoySupport

/// The form in the fragment of a URL (RFC 6901, section 6): `#/a%20b`.
extension JSONPointer {
    /// A pointer from the fragment of a URL, with or without the `#`: the text of a pointer in UTF-8, percent-encoded. Nil
    /// for other text, such as one with a `%` that encodes nothing.
    public init?(uriFragment: String) {
        var rest = Array(uriFragment.utf8)[...]
        if rest.first == UInt8(ascii: "#") { rest.removeFirst() }
        var text: [UInt8] = []
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                text.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(ASCII.hexadecimalValue),
                let low = rest.popFirst().flatMap(ASCII.hexadecimalValue)
            else { return nil }
            text.append(high << 4 | low)
        }
        guard let text = String(validating: text, as: UTF8.self) else { return nil }
        self.init(text)
    }

    /// The pointer as the fragment of a URL, with the `#`.
    public var uriFragment: String {
        var text = Array("#".utf8)
        for byte in description.utf8 {
            if Self.fragmentBytes.contains(byte) {
                text.append(byte)
            } else {
                text.append(UInt8(ascii: "%"))
                text.append(ASCII.hexadecimalDigit(byte >> 4, uppercase: true))
                text.append(ASCII.hexadecimalDigit(byte & 15, uppercase: true))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// What a fragment may contain without encoding (RFC 3986, section 3.5).
    private static let fragmentBytes = Set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/?".utf8)
}
