import ConvoySupport
import Foundation

/// The rules that decide which cookies are accepted (RFC 6265bis, section 5.7). The rules that involve existing cookies
/// are in ``CookieJar``.
enum CookieRules {
    /// Returns the cookie that a field sets.
    ///
    /// - Parameter now: The current time, in microseconds since 1970.
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
        // The `__Host-` prefix requires a `Path` attribute; a default path of "/" is not sufficient.
        try checkPromises(cookie, hasPath: field.path != nil)
        return cookie
    }

    /// Returns the expiry time. `Max-Age` takes precedence over `Expires`, and the lifetime is limited to 400 days.
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

    /// Returns the domain of a cookie; nil for a host-only cookie.
    private static func domain(_ attribute: [UInt8]?, host: String) throws(CookieRefusal) -> String? {
        guard let attribute, !attribute.isEmpty else { return nil }
        guard attribute.allSatisfy({ $0 < 0x80 }) else { throw .foreignDomain }
        let domain = String(decoding: attribute, as: UTF8.self)
        // An address has no subdomains.
        if domain == host, HostName.isAddress(host) { return nil }
        if HostName.normalized(domain) == domain, PublicSuffixes.contains(domain) {
            guard domain == host else { throw .publicSuffix }
            return nil
        }
        guard HostName.isName(host, equalToOrBelow: domain) else { throw .foreignDomain }
        return domain
    }

    /// Checks the requirements of the cookie's attributes and of its name prefix.
    private static func checkPromises(_ cookie: Cookie, hasPath: Bool) throws(CookieRefusal) {
        if cookie.sameSite == .none, !cookie.isSecure { throw .sameSiteNoneWithoutSecure }
        // Without a name, servers would interpret a prefix of the value as part of a name.
        let start = cookie.nameBytes.isEmpty ? cookie.valueBytes : cookie.nameBytes
        let isHost = hasPrefix(start, "__Host-")
        guard isHost || hasPrefix(start, "__Secure-") else { return }
        guard !cookie.nameBytes.isEmpty, cookie.isSecure else { throw .prefix }
        if isHost { guard cookie.isHostOnly, hasPath, cookie.path == "/" else { throw .prefix } }
    }

    private static func hasPrefix(_ bytes: [UInt8], _ prefix: String) -> Bool {
        ASCII.equalIgnoringCase(bytes.prefix(prefix.utf8.count), prefix.utf8)
    }

    // MARK: Cookies from other sources

    /// Checks a cookie that did not come from a server, for example one from a file.
    ///
    /// - Parameter place: The origin of the response that the cookie is attributed to; nil to check it on its own.
    /// - Returns: The cookie, with its lifetime limited to 400 days. It is host-only if its domain is a public suffix.
    static func cookie(
        _ cookie: Cookie, for place: CookiePlace?, at now: Int64
    ) throws(CookieRefusal) -> Cookie {
        var cookie = cookie
        try checkBytes(cookie)
        guard let domain = HostName.normalized(cookie.domain) else { throw .foreignDomain }
        cookie.domain = domain
        if !cookie.isHostOnly {
            if HostName.isAddress(domain) {
                cookie.isHostOnly = true
            } else if PublicSuffixes.contains(domain) {
                guard place?.host == domain else { throw .publicSuffix }
                cookie.isHostOnly = true
            }
        }
        if let place {
            let isAllowed =
                cookie.isHostOnly ? place.host == domain : HostName.isName(place.host, equalToOrBelow: domain)
            guard isAllowed else { throw .foreignDomain }
            if cookie.isSecure, !place.isSecure { throw .secureFromInsecure }
        }
        try checkPromises(cookie, hasPath: true)
        if let expiry = cookie.expiryTime { cookie.expiryTime = limited(max(expiry, 0), at: now) }
        cookie.creationTime = min(max(cookie.creationTime, 0), CookieTime.latest)
        cookie.accessTime = min(max(cookie.accessTime, 0), CookieTime.latest)
        return cookie
    }

    /// Checks that the cookie can be represented in a `Cookie` field.
    private static func checkBytes(_ cookie: Cookie) throws(CookieRefusal) {
        let (name, value) = (cookie.nameBytes, cookie.valueBytes)
        guard !name.isEmpty || !value.isEmpty else { throw .empty }
        guard name.count + value.count <= SetCookieField.largestPair else { throw .tooLarge }
        func isBad(_ byte: UInt8) -> Bool { byte == UInt8(ascii: ";") || SetCookieField.isControl(byte) }
        func isBlank(_ byte: UInt8?) -> Bool { byte.map(HTTPSyntax.isOptionalWhitespace) ?? false }
        guard !name.contains(where: { isBad($0) || $0 == UInt8(ascii: "=") }), !value.contains(where: isBad),
            !isBlank(name.first), !isBlank(name.last), !isBlank(value.first), !isBlank(value.last)
        else { throw .invalidCharacter }
        // The default path comes from the request, which may contain semicolons and be longer than an attribute.
        guard cookie.path.utf8.first == UInt8(ascii: "/"), cookie.path.utf8.count <= 1 << 16,
            !cookie.path.utf8.contains(where: SetCookieField.isControl)
        else { throw .invalidPath }
    }
}

/// The reason why a cookie is not stored.
package enum CookieRefusal: Error, Hashable, Sendable {
    /// The cookie contains a control character, or another character that is not allowed in its position.
    case invalidCharacter
    /// The cookie has neither a name nor a value.
    case empty
    /// The name and value of the cookie exceed 4096 bytes in total.
    case tooLarge
    /// The host is invalid, or does not belong to the cookie's domain.
    case foreignDomain
    /// The domain of the cookie is a public suffix, in which anyone can register names.
    case publicSuffix
    /// The path of the cookie does not begin with a slash.
    case invalidPath
    /// The cookie is `Secure` but was not received over TLS.
    case secureFromInsecure
    /// The cookie was not received over TLS and would replace or hide a `Secure` cookie.
    case hidesSecure
    /// The cookie is `SameSite=None` but not `Secure`.
    case sameSiteNoneWithoutSecure
    /// The cookie's name begins with `__Host-` or `__Secure-`, but the cookie violates the requirements of that prefix.
    case prefix
    /// The acceptance handler rejected the cookie.
    case refusedByHandler
}

/// The host, path and security of a URL, as required by the cookie rules.
package struct CookiePlace: Sendable, Hashable {
    /// The normalized host; empty if the host is invalid and therefore has no cookies.
    let host: String
    /// The path, which begins with a slash.
    let path: String
    /// Whether the scheme is https or wss. Unlike in some browsers, this also applies to loopback hosts, because a
    /// `Secure` cookie would leave this process unencrypted.
    let isSecure: Bool

    /// - Parameters:
    ///   - host: The host, in any case, with or without brackets and a trailing dot.
    ///   - path: The path without the query. An empty path means "/".
    ///   - isSecure: Whether the scheme is https or wss.
    package init(host: String, path: String, isSecure: Bool) {
        self.host = HostName.normalized(host) ?? ""
        self.path = path.utf8.first == UInt8(ascii: "/") ? path : "/"
        self.isSecure = isSecure
    }

    /// Creates a place from a URL; nil if its scheme is not http, https, ws or wss, or if it has no host.
    package init?(_ url: URL) {
        guard let target = Target(ofWebSocketOrHTTP: url),
            let components = URLComponents(url: url, resolvingAgainstBaseURL: true)
        else { return nil }
        self.init(host: target.host, path: components.percentEncodedPath, isSecure: target.isSecure)
        if self.host.isEmpty { return nil }
    }
}

/// The properties of a request that determine its cookies.
package struct CookieRequest: Sendable {
    let place: CookiePlace
    /// Whether another site caused the request (RFC 6265bis, section 5.2).
    let isCrossSite: Bool
    let isSafeMethod: Bool

    /// - Parameters:
    ///   - place: The place of the request's URL.
    ///   - site: The document that caused the request (`URLRequest.mainDocumentURL`), if any.
    ///   - isSafeMethod: Whether the method is GET, HEAD, OPTIONS or TRACE.
    package init(place: CookiePlace, site: URL?, isSafeMethod: Bool) {
        self.place = place
        self.isSafeMethod = isSafeMethod
        isCrossSite = site.map { !Self.isSameSite(place, $0) } ?? false
    }

    /// Returns whether two URLs are same-site: their schemes are equally secure, and their registrable domains are
    /// equal. A host without a registrable domain, for example an address, is its own site. A URL without a host, for
    /// example `about:blank`, does not belong to any site.
    private static func isSameSite(_ place: CookiePlace, _ site: URL) -> Bool {
        guard let other = CookiePlace(site), other.isSecure == place.isSecure else { return false }
        return other.host == place.host || PublicSuffixes.site(of: other.host) == PublicSuffixes.site(of: place.host)
    }

    /// Returns whether a cookie may be sent with a request caused by another site (section 5.8.3).
    ///
    /// Browsers send `Lax` cookies only with top-level navigations that use a safe method, and not with subresources.
    /// Here every request counts as top-level, so only the method matters. A cookie without the attribute is treated as
    /// `Lax`.
    func allows(_ sameSite: Cookie.SameSite) -> Bool {
        guard isCrossSite else { return true }
        switch sameSite {
        case .none: return true
        case .lax, .unspecified: return isSafeMethod
        case .strict: return false
        }
    }
}

/// The comparison of the paths of cookies and requests (RFC 6265bis, section 5.1.4), byte by byte: `%6F` is not `o`.
enum CookiePath {
    /// Returns the default path of a cookie: the directory of the request.
    static func defaultPath(of path: String) -> String {
        guard path.utf8.first == UInt8(ascii: "/"), let end = path.utf8.lastIndex(of: UInt8(ascii: "/")),
            end > path.utf8.startIndex
        else { return "/" }
        return String(path[..<end])
    }

    /// Returns whether a cookie's path matches that of a request.
    static func matches(_ request: String, _ cookie: String) -> Bool {
        if cookie == "/" { return request.utf8.first == UInt8(ascii: "/") }
        let (request, cookie) = (request.utf8, cookie.utf8)
        guard request.starts(with: cookie) else { return false }
        guard let next = request.dropFirst(cookie.count).first else { return true }
        return next == UInt8(ascii: "/") || cookie.last == UInt8(ascii: "/")
    }
}
