/// The answer to a challenge that asks for a bearer token (RFC 6750).
package enum BearerAuthorization {
    /// The value of the `Authorization` field: "Bearer " and the token as it is.
    ///
    /// - Returns: nil for a token that is empty or has other characters than those of RFC 6750, section 2.1 (letters,
    ///   digits, "-._~+/", and "=" at its end), for instance the end of a line.
    package static func value(token: String) -> String? {
        let bytes = token.utf8
        let padding = bytes.drop(while: isTokenByte)
        guard padding.count < bytes.count, padding.allSatisfy({ $0 == UInt8(ascii: "=") }) else { return nil }
        return "Bearer \(token)"
    }

    /// Whether a byte can be in a token before its padding. The same are allowed in a `token68` (RFC 9110, section 11.2).
    static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"),
            UInt8(ascii: "/"):
            true
        default: false
        }
    }
}
