import ConvoySupport

/// Decides which cookies are accepted (RFC 6265bis, section 5.7). What depends on the cookies that are there already is
/// in ``CookieJar``.
enum CookieRules {
    /// The cookie that a field sets.
    ///
    /// - Parameter now: microseconds since 1970.
    static func cookie(
        _ field: SetCookieField, from place: CookiePlace, at now: Int64
    ) throws(CookieRefusal) -> Cookie {
        guard !place.host.isEmpty else { throw .foreignDomain }
        let domain = try domain(field.domain, host: place.host)
        var path = CookiePath.defaultPath(of: place.path)
        if let given = field.path, given.first == UInt8(ascii: "/") { path = ASCII.text(given[...]) }
        let cookie = Cookie(
            nameBytes: field.name, valueBytes: field.value, domain: domain ?? place.host, isHostOnly: domain == nil,
            path: path, isSecure: field.isSecure, isHTTPOnly: field.isHTTPOnly, sameSite: field.sameSite,
            expiryTime: expiry(field, at: now), creationTime: now, accessTime: now)
        if cookie.isSecure, !place.isSecure { throw .secureFromInsecure }
        // The path must not only be "/" by chance.
        try checkPromises(cookie, hasPath: field.path != nil)
        return cookie
    }

    /// `Max-Age` counts more than `Expires`, and nothing is kept for longer than 400 days.
    private static func expiry(_ field: SetCookieField, at now: Int64) -> Int64? {
        if let age = field.maximumAge {
            guard age > 0 else { return 0 }
            return min(now, CookieTime.latest) + min(CookieTime.microseconds(seconds: age), CookieTime.longestAge)
        }
        return field.expires.map { limited(CookieTime.microseconds(seconds: $0), at: now) }
    }

    private static func limited(_ expiry: Int64, at now: Int64) -> Int64 {
        min(expiry, min(now, CookieTime.latest) + CookieTime.longestAge)
    }

    /// The domain of a cookie; nil if it is for the host only.
    private static func domain(_ attribute: [UInt8]?, host: String) throws(CookieRefusal) -> String? {
        guard let attribute, !attribute.isEmpty else { return nil }
        guard attribute.allSatisfy({ $0 < 0x80 }) else { throw .foreignDomain }
        let domain = String(decoding: attribute, as: UTF8.self)
        // An address has no hosts below it.
        if domain == host, CookieHost.isAddress(host) { return nil }
        if CookieHost.normalized(domain) == domain, PublicSuffixes.contains(domain) {
            guard domain == host else { throw .publicSuffix }
            return nil
        }
        guard CookieHost.matches(host, domain: domain) else { throw .foreignDomain }
        return domain
    }

    /// What a cookie promises by its attributes and by the prefix of its name.
    private static func checkPromises(_ cookie: Cookie, hasPath: Bool) throws(CookieRefusal) {
        if cookie.sameSite == .none, !cookie.isSecure { throw .sameSiteNoneWithoutSecure }
        // Without a name, servers would read the prefix of the value as that of a name.
        let start = cookie.nameBytes.isEmpty ? cookie.valueBytes : cookie.nameBytes
        let isHost = hasPrefix(start, "__Host-")
        guard isHost || hasPrefix(start, "__Secure-") else { return }
        guard !cookie.nameBytes.isEmpty, cookie.isSecure else { throw .prefix }
        if isHost { guard cookie.isHostOnly, hasPath, cookie.path == "/" else { throw .prefix } }
    }

    private static func hasPrefix(_ bytes: [UInt8], _ prefix: String) -> Bool {
        ASCII.equalIgnoringCase(bytes.prefix(prefix.utf8.count), prefix.utf8)
    }

    // MARK: Cookies from elsewhere

    /// Judges a cookie that no server has sent: one of the user's, or of a file.
    ///
    /// - Parameter place: where it is set for; nil if it stands for itself.
    /// - Returns: the cookie, with its life limited to 400 days, and for its host only if that is a public suffix.
    static func cookie(
        _ cookie: Cookie, for place: CookiePlace?, at now: Int64
    ) throws(CookieRefusal) -> Cookie {
        var cookie = cookie
        try checkBytes(cookie)
        guard let domain = CookieHost.normalized(cookie.domain) else { throw .foreignDomain }
        cookie.domain = domain
        if !cookie.isHostOnly {
            if CookieHost.isAddress(domain) {
                cookie.isHostOnly = true
            } else if PublicSuffixes.contains(domain) {
                guard place?.host == domain else { throw .publicSuffix }
                cookie.isHostOnly = true
            }
        }
        if let place {
            let isAllowed =
                cookie.isHostOnly ? place.host == domain : CookieHost.matches(place.host, domain: domain)
            guard isAllowed else { throw .foreignDomain }
            if cookie.isSecure, !place.isSecure { throw .secureFromInsecure }
        }
        try checkPromises(cookie, hasPath: true)
        if let expiry = cookie.expiryTime { cookie.expiryTime = limited(max(expiry, 0), at: now) }
        cookie.creationTime = min(max(cookie.creationTime, 0), CookieTime.latest)
        cookie.accessTime = min(max(cookie.accessTime, 0), CookieTime.latest)
        return cookie
    }

    /// Whether a server would read from a `Cookie` field what is in the cookie.
    private static func checkBytes(_ cookie: Cookie) throws(CookieRefusal) {
        let (name, value) = (cookie.nameBytes, cookie.valueBytes)
        guard !name.isEmpty || !value.isEmpty else { throw .empty }
        guard name.count + value.count <= SetCookieField.largestPair else { throw .tooLarge }
        func isBad(_ byte: UInt8) -> Bool { byte == UInt8(ascii: ";") || SetCookieField.isControl(byte) }
        func isBlank(_ byte: UInt8?) -> Bool { byte.map(HTTPSyntax.isOptionalWhitespace) ?? false }
        guard !name.contains(where: { isBad($0) || $0 == UInt8(ascii: "=") }), !value.contains(where: isBad),
            !isBlank(name.first), !isBlank(name.last), !isBlank(value.first), !isBlank(value.last)
        else { throw .invalidCharacter }
        // The path of a request, which is the default, may have semicolons and more bytes than an attribute.
        guard cookie.path.utf8.first == UInt8(ascii: "/"), cookie.path.utf8.count <= 1 << 16,
            !cookie.path.utf8.contains(where: SetCookieField.isControl)
        else { throw .invalidPath }
    }
}
