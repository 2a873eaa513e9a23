import Foundation

/// The answer to a Bearer challenge (RFC 6750).
package enum BearerAuthorization {
    /// The value of the `Authorization` field: "Bearer " and the token as it is.
    ///
    /// - Returns: nil for a token that is empty or has other characters than those of RFC 6750, section 2.1 (letters,
    ///   digits, "-._~+/", and "=" at its end), such as a line break.
    package static func value(token: String) -> String? {
        let bytes = token.utf8
        let padding = bytes.drop(while: isTokenByte)
        guard padding.count < bytes.count, padding.allSatisfy({ $0 == UInt8(ascii: "=") }) else { return nil }
        return "Bearer \(token)"
    }

    /// Whether a token may contain the byte before its padding. The same bytes are allowed in a `token68` (RFC 9110,
    /// section 11.2).
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

/// The answer to a Basic challenge (RFC 7617).
package enum BasicAuthorization {
    /// The value of the `Authorization` field: "Basic " and user and password in base64, as UTF-8.
    ///
    /// - Returns: nil for a user name with a colon, at which the server would split it, and for control characters in
    ///   either (RFC 7617, section 2).
    package static func value(user: String, password: String) -> String? {
        guard !user.utf8.contains(UInt8(ascii: ":")), isSendable(user), isSendable(password) else { return nil }
        return "Basic \(Data("\(user):\(password)".utf8).base64EncodedString())"
    }

    /// Whether a text has no control characters, neither those of ASCII nor those of Unicode.
    static func isSendable(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}
