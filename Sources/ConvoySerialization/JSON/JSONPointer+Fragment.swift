import ConvoySupport

/// The form in the fragment of a URL (RFC 6901, section 6): `#/a%20b`.
extension JSONPointer {
    /// A pointer from the fragment of a URL, with or without the `#`: the text of a pointer in UTF-8, percent-encoded. Nil
    /// for other text, such as one with a `%` that encodes nothing.
    public init?(uriFragment: String) {
        let fragment = uriFragment.utf8.first == UInt8(ascii: "#") ? uriFragment.utf8.dropFirst() : uriFragment.utf8[...]
        guard let bytes = PercentEncoding.strictlyDecoded(Array(fragment)[...]),
            let text = String(validating: bytes, as: UTF8.self)
        else { return nil }
        self.init(text)
    }

    /// The pointer as the fragment of a URL, with the `#`.
    public var uriFragment: String {
        let bytes = PercentEncoding.encoded(Array(description.utf8)[...], allowing: .query, keepsEncodings: false)
        return "#" + String(decoding: bytes, as: UTF8.self)
    }
}
