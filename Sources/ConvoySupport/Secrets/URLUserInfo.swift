/// The user name and password that a URL can contain (RFC 3986, section 3.2.1). HTTP deprecates them, as URLs are
/// logged, stored and passed on (RFC 9110, section 4.2.4).
package enum URLUserInfo {
    /// Whether a URL, given as text, has user information, even an empty one.
    package static func isPresent(in url: String) -> Bool {
        // Most URLs have no such character anywhere.
        url.utf8.contains(separator) && URLParts(Array(url.utf8)[...]).authority?.contains(separator) == true
    }

    /// The user name and the password, decoded, as bytes; nil if the URL has none. The password is nil without a colon.
    package static func parts(of url: String) -> (user: [UInt8], password: [UInt8]?)? {
        guard let authority = URLParts(Array(url.utf8)[...]).authority, let at = authority.lastIndex(of: separator) else {
            return nil
        }
        let userInfo = authority[..<at]
        let colon = userInfo.firstIndex(of: UInt8(ascii: ":")) ?? at
        return (
            PercentEncoding.decoded(userInfo[..<colon]),
            colon < at ? PercentEncoding.decoded(userInfo[(colon + 1)...]) : nil
        )
    }

    /// The same URL without user information.
    package static func removed(from url: String) -> String {
        guard isPresent(in: url) else { return url }
        var parts = URLParts(Array(url.utf8)[...])
        parts.authority = parts.authority.map { authority in
            authority.lastIndex(of: separator).map { authority[($0 + 1)...] } ?? authority
        }
        return parts.text
    }

    /// The same text without what may be user information, in whatever spelling: also where it is no authority by RFC 3986,
    /// as in `http:/user:password@host`. For what is shown and never requested.
    package static func removedFromAnySpelling(_ text: String) -> String {
        guard text.utf8.contains(where: { $0 == separator || $0 == UInt8(ascii: "%") }) else { return text }
        let bytes = Array(text.utf8)
        guard let userInfo = Redaction.userInfo(in: bytes[...]) else { return text }
        let isEncoded = bytes[userInfo.upperBound] != separator
        return String(
            decoding: bytes[..<userInfo.lowerBound] + bytes[(userInfo.upperBound + (isEncoded ? 3 : 1))...], as: UTF8.self)
    }

    private static let separator = UInt8(ascii: "@")
}
