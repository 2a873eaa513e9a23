/// Removes secrets from URLs before they are printed: user information (RFC 3986, section 3.2.1), and the values of
/// secret items in the query, the fragment and the path parameters.
///
/// Strings are processed as bytes, because a combining accent after `@` or `=` must not hide the separator. Malformed
/// URLs, which can also contain secrets, are supported: `http:/user:password@host`, `http:\\user:password@host`,
/// `user:password@host`.
package enum Redaction {
    /// The replacement for a secret.
    package static let mask = "***"

    /// Redacts a URL, or a string that was intended as a URL.
    package static func url(_ text: String, _ secrets: SecretClassifier = .standard) -> String {
        guard mayHaveSecrets(text) else { return text }
        let bytes = Array(text.utf8)
        let start = endOfScheme(bytes[...]) ?? 0
        return string(bytes[..<start] + hierarchy(bytes[start...], secrets))
    }

    /// Redacts all URLs in a string.
    package static func text(_ text: String, _ secrets: SecretClassifier = .standard) -> String {
        guard mayHaveSecrets(text) else { return text }
        var result: [UInt8] = [], rest = Array(text.utf8)[...]
        while let start = rest.firstIndex(where: { !endsWord($0) }) {
            let end = rest[start...].firstIndex(where: endsWord) ?? rest.endIndex
            result += rest[..<start] + word(rest[start..<end], secrets)
            rest = rest[end...]
        }
        return string(result + rest)
    }

    /// Redacts the items of a query or a form, which are separated by `&` or `;`.
    package static func items(_ query: String, _ secrets: SecretClassifier = .standard) -> String {
        string(items(Array(query.utf8)[...], secrets, depth: 0))
    }

    /// Returns the range of the user information in a URL of any spelling, without the `@`, or nil if the URL has no
    /// user information.
    static func userInfo(in bytes: ArraySlice<UInt8>) -> Range<Int>? {
        let start = endOfScheme(bytes) ?? bytes.startIndex
        return endOfUserInfo(bytes[start...], last: bytes.lastIndex(of: UInt8(ascii: "@"))).map { start..<$0 }
    }

    // MARK: Start of a URL

    private static func string(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

    private static func isSlash(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\\") }

    private static func endsAuthority(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
    }

    private static func endsWord(_ byte: UInt8) -> Bool {
        byte <= 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "<") || byte == UInt8(ascii: ">")
    }

    /// Returns whether a byte can precede or follow a secret.
    private static func isMark(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: "@"), UInt8(ascii: ";"), UInt8(ascii: "%"),
            UInt8(ascii: "\\"):
            true
        default: false
        }
    }

    /// Returns whether the text contains a character that can introduce a secret. Most strings contain none and need
    /// not be copied.
    private static func mayHaveSecrets(_ text: String) -> Bool {
        var previous: UInt8 = 0
        return text.utf8.contains { byte in
            defer { previous = byte }
            // JSON Web Tokens begin with these letters.
            return isMark(byte) || (byte == UInt8(ascii: "J") && previous == UInt8(ascii: "y"))
        }
    }

    /// Returns the index after the scheme and the slashes that follow it, or nil if the text has no scheme.
    private static func endOfScheme(_ text: ArraySlice<UInt8>) -> Int? {
        let name = text.prefix(while: ByteSet.scheme.contains)
        let hasColon = name.endIndex < text.endIndex && text[name.endIndex] == UInt8(ascii: ":")
        let start = hasColon && !name.isEmpty ? name.endIndex + 1 : text.startIndex
        let end = text[start...].firstIndex { !isSlash($0) } ?? text.endIndex
        if start == text.startIndex { return end > start + 1 ? end : nil }
        return end > start || isScheme(name) ? end : nil
    }

    private static let schemes = ["http", "https", "ws", "wss", "ftp", "ftps", "socks5", "socks5h", "socks4", "socks4a"]

    private static func isScheme(_ name: ArraySlice<UInt8>) -> Bool {
        schemes.contains { ASCII.equalIgnoringCase($0.utf8, name) }
    }

    /// Returns the index at which an authority may begin, after a scheme or slashes.
    private static func startOfAuthority(in text: ArraySlice<UInt8>) -> Int? {
        var index = text.startIndex, name = text.startIndex
        while index < text.endIndex {
            let byte = text[index]
            if isSlash(byte), index + 1 < text.endIndex, isSlash(text[index + 1]) {
                return text[index...].firstIndex { !isSlash($0) } ?? text.endIndex
            }
            if byte == UInt8(ascii: ":"), isScheme(text[name..<index]) {
                return text[(index + 1)...].firstIndex { !isSlash($0) } ?? text.endIndex
            }
            index += 1
            if !ByteSet.scheme.contains(byte) { name = index }
        }
        return nil
    }

    // MARK: User information

    /// Returns the index of the `@` that ends the user information in a string that begins with an authority, or nil if
    /// the authority has no user information.
    ///
    /// - Parameter last: The index of the last `@` of the text; nil if it contains none.
    private static func endOfUserInfo(_ text: ArraySlice<UInt8>, last: Int?) -> Int? {
        let authority = text.prefix { !endsAuthority($0) }
        if let at = authority.lastIndex(of: UInt8(ascii: "@")) ?? encodedAt(in: authority) { return at }
        // The password may contain an unescaped slash, unless the text after the colon is a port. Colons in brackets
        // belong to an IPv6 address.
        guard let last, authority.first != UInt8(ascii: "["), let colon = authority.firstIndex(of: UInt8(ascii: ":")),
            last > colon, !authority[(colon + 1)...].allSatisfy(ASCII.isDigit)
        else { return nil }
        return last
    }

    /// Returns the index of a percent-encoded `@`. Some parsers decode the authority before they look for the `@`.
    private static func encodedAt(in authority: ArraySlice<UInt8>) -> Int? {
        authority.indices.dropLast(2).last {
            authority[$0] == UInt8(ascii: "%") && authority[$0 + 1] == UInt8(ascii: "4")
                && authority[$0 + 2] == UInt8(ascii: "0")
        }
    }

    // MARK: Parts of URLs

    /// Redacts one word of a string. The word is a URL if it contains slashes, a scheme, or a user name and password.
    private static func word(_ text: ArraySlice<UInt8>, _ secrets: SecretClassifier) -> [UInt8] {
        if SecretName.isWebToken(text) { return Array(mask.utf8) }
        if let start = endOfScheme(text) { return text[..<start] + hierarchy(text[start...], secrets) }
        let authority = text.prefix { !endsAuthority($0) }
        if let colon = authority.firstIndex(of: UInt8(ascii: ":")), authority[colon...].contains(UInt8(ascii: "@")) {
            return hierarchy(text, secrets)
        }
        return query(text, secrets, depth: 0)
    }

    /// Redacts the text after `//`, which can begin with user information.
    private static func hierarchy(_ text: ArraySlice<UInt8>, _ secrets: SecretClassifier) -> [UInt8] {
        guard let at = endOfUserInfo(text, last: text.lastIndex(of: UInt8(ascii: "@"))) else {
            return query(text, secrets, depth: 0)
        }
        return Array(mask.utf8) + query(text[at...], secrets, depth: 0)
    }

    /// Redacts the path, and the text after the first `?` or `#`.
    private static func query(_ text: ArraySlice<UInt8>, _ secrets: SecretClassifier, depth: Int) -> [UInt8] {
        let mark = text.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? text.endIndex
        let path = path(text[..<mark], secrets)
        guard mark < text.endIndex else { return path }
        return path + [text[mark]] + items(text[(mark + 1)...], secrets, depth: depth)
    }

    /// The maximum length of an authority in a path, in bytes. A path may contain several authorities in a row.
    private static let longestAuthority = 2 << 10

    /// Redacts a path, which can contain other URLs, parameters (`;jsessionid=…`) and tokens.
    private static func path(_ text: ArraySlice<UInt8>, _ secrets: SecretClassifier) -> [UInt8] {
        var result: [UInt8] = [], rest = text
        let last = text.lastIndex(of: UInt8(ascii: "@")), lastMark = max(last ?? -1, encodedAt(in: text) ?? -1)
        while rest.startIndex < lastMark, let start = startOfAuthority(in: rest) {
            result += rest[..<start]
            rest = rest[start...]
            if let at = endOfUserInfo(rest.prefix(longestAuthority), last: last.flatMap { $0 > start ? $0 : nil }) {
                result += mask.utf8
                rest = rest[at...]
            }
        }
        result += rest
        guard result.contains(where: { $0 == UInt8(ascii: ";") || $0 == UInt8(ascii: "J") }) else { return result }
        return Array(
            result.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
                .map { segment($0, secrets) }.joined(separator: [UInt8(ascii: "/")]))
    }

    private static func segment(_ text: ArraySlice<UInt8>, _ secrets: SecretClassifier) -> [UInt8] {
        if secrets.hides(item: EmptyCollection(), text) { return Array(mask.utf8) }
        guard let start = text.firstIndex(of: UInt8(ascii: ";")) else { return Array(text) }
        return Array(text[...start]) + items(text[(start + 1)...], secrets, depth: 0)
    }

    private static func items(_ text: ArraySlice<UInt8>, _ secrets: SecretClassifier, depth: Int) -> [UInt8] {
        var result: [UInt8] = [], rest = text
        while true {
            // Another `?` or `#` starts the items of a nested URL.
            let end = rest.firstIndex { "&;?#".utf8.contains($0) } ?? rest.endIndex
            result += item(rest[..<end], secrets, depth: depth)
            guard end < rest.endIndex else { return result }
            result.append(rest[end])
            rest = rest[(end + 1)...]
        }
    }

    private static func item(_ text: ArraySlice<UInt8>, _ secrets: SecretClassifier, depth: Int) -> [UInt8] {
        guard let equals = text.firstIndex(of: UInt8(ascii: "=")) else {
            return secrets.hides(item: EmptyCollection(), text) ? Array(mask.utf8) : Array(text)
        }
        let value = text[(equals + 1)...]
        if value.isEmpty { return Array(text) }
        let decoded = PercentEncoding.decoded(value)
        if secrets.hides(item: PercentEncoding.decoded(text[..<equals]), decoded) {
            return Array(text[...equals]) + mask.utf8
        }
        // The value may itself be a URL that has items.
        guard depth < 3, value.contains(where: { isMark($0) || $0 == UInt8(ascii: "/") }) else { return Array(text) }
        let isHarmless = query(decoded[...], secrets, depth: depth + 1) == decoded && !hasUserInfo(decoded)
        return isHarmless ? Array(text) : Array(text[...equals]) + mask.utf8
    }

    /// Returns whether the value of an item is a URL with user information, possibly encoded more than once. E-mail
    /// addresses do not count.
    private static func hasUserInfo(_ value: [UInt8]) -> Bool {
        var value = value
        for _ in 0..<3 {
            let start = startOfAuthority(in: value[...]) ?? 0
            let authority = value[start...].prefix { !endsAuthority($0) }
            if let at = authority.lastIndex(of: UInt8(ascii: "@")), start > 0 || authority[..<at].contains(UInt8(ascii: ":"))
            {
                return true
            }
            guard value.contains(UInt8(ascii: "%")) else { return false }
            value = PercentEncoding.decoded(value[...])
        }
        return false
    }
}

/// The user name and password in a URL (RFC 3986, section 3.2.1). HTTP deprecates them, because URLs are logged, stored
/// and shared (RFC 9110, section 4.2.4).
package enum URLUserInfo {
    /// Returns whether the text of a URL contains user information, even if it is empty.
    package static func isPresent(in url: String) -> Bool {
        // Fast path: most URLs do not contain this character.
        url.utf8.contains(separator) && URLParts(Array(url.utf8)[...]).authority?.contains(separator) == true
    }

    /// Returns the decoded user name and password, as bytes, or nil if the URL has no user information. The password is
    /// nil if the user information contains no colon.
    package static func parts(of url: String) -> (user: [UInt8], password: [UInt8]?)? {
        // Fast path, as above.
        guard url.utf8.contains(separator), let authority = URLParts(Array(url.utf8)[...]).authority,
            let at = authority.lastIndex(of: separator)
        else { return nil }
        let userInfo = authority[..<at]
        let colon = userInfo.firstIndex(of: UInt8(ascii: ":")) ?? at
        return (
            PercentEncoding.decoded(userInfo[..<colon]),
            colon < at ? PercentEncoding.decoded(userInfo[(colon + 1)...]) : nil
        )
    }

    /// Returns the URL without user information.
    package static func removed(from url: String) -> String {
        guard isPresent(in: url) else { return url }
        var parts = URLParts(Array(url.utf8)[...])
        parts.authority = parts.authority.map { authority in
            authority.lastIndex(of: separator).map { authority[($0 + 1)...] } ?? authority
        }
        return parts.text
    }

    /// Returns the text without anything that could be user information, in any spelling, including strings in which
    /// RFC 3986 recognizes no authority, for example `http:/user:password@host`. Use the result only for display.
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
