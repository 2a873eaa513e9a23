import Foundation

/// The answer to a challenge of Basic authentication (RFC 7617).
package enum BasicAuthorization {
    /// The value of the `Authorization` field: "Basic " and user and password in base64, as UTF-8.
    ///
    /// - Returns: nil for a user name with a colon, which would be the end of it, and for control characters in either
    ///   (RFC 7617, section 2).
    package static func value(user: String, password: String) -> String? {
        guard !user.utf8.contains(UInt8(ascii: ":")), isSendable(user), isSendable(password) else { return nil }
        return "Basic \(Data("\(user):\(password)".utf8).base64EncodedString())"
    }

    /// Whether there are no control characters in a text, neither ASCII's nor Unicode's.
    static func isSendable(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}
