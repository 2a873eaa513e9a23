import ConvoySupport
import Foundation

/// Where a request goes, or a response comes from: what the rules need of its URL.
package struct CookiePlace: Sendable, Hashable {
    /// Normalized; empty for what cannot be a host, which has no cookies.
    let host: String
    /// Begins with a slash.
    let path: String
    /// Whether the scheme is https or wss. Loopback hosts are no exception, although some browsers make one: a cookie
    /// that is `Secure` would leave this process unencrypted.
    let isSecure: Bool

    /// - Parameters:
    ///   - host: in any case, with or without brackets and a dot at the end.
    ///   - path: without the query; empty means "/".
    ///   - isSecure: whether the scheme is https or wss.
    package init(host: String, path: String, isSecure: Bool) {
        self.host = CookieHost.normalized(host) ?? ""
        self.path = path.utf8.first == UInt8(ascii: "/") ? path : "/"
        self.isSecure = isSecure
    }

    /// The place of a URL; nil if its scheme is none of http, https, ws and wss, or if it has no host.
    package init?(_ url: URL) {
        guard let target = Target(ofWebSocketOrHTTP: url),
            let components = URLComponents(url: url, resolvingAgainstBaseURL: true)
        else { return nil }
        self.init(host: target.host, path: components.percentEncodedPath, isSecure: target.isSecure)
        if self.host.isEmpty { return nil }
    }
}

/// A request that asks for its cookies.
package struct CookieRequest: Sendable {
    let place: CookiePlace
    /// Whether another site has caused the request (RFC 6265bis, section 5.2).
    let isCrossSite: Bool
    let isSafeMethod: Bool

    /// - Parameters:
    ///   - place: where it goes.
    ///   - site: the page or document that has caused it, `URLRequest.mainDocumentURL`; nil for none.
    ///   - isSafeMethod: whether its method is GET, HEAD, OPTIONS or TRACE.
    package init(place: CookiePlace, site: URL?, isSafeMethod: Bool) {
        self.place = place
        self.isSafeMethod = isSafeMethod
        isCrossSite = site.map { !Self.isSameSite(place, $0) } ?? false
    }

    /// Two URLs are of the same site if their schemes are equally secure and their registrable domains are the same. A
    /// host without one, such as an address, is a site of its own. Without a host, as in `about:blank` and `file:`, it is
    /// no site.
    private static func isSameSite(_ place: CookiePlace, _ site: URL) -> Bool {
        guard let other = CookiePlace(site), other.isSecure == place.isSecure else { return false }
        return other.host == place.host || PublicSuffixes.site(of: other.host) == PublicSuffixes.site(of: place.host)
    }

    /// Whether a cookie may be sent with a request that another site has caused (section 5.8.3).
    ///
    /// There, `Lax` cookies go with navigation of the whole window by a safe method only, not with parts of a page. A
    /// client without windows has no such parts: each of its requests is for what it shows or does next, so only the
    /// method decides. A cookie whose server says nothing is treated as `Lax`.
    func allows(_ sameSite: Cookie.SameSite) -> Bool {
        guard isCrossSite else { return true }
        switch sameSite {
        case .none: return true
        case .lax, .unspecified: return isSafeMethod
        case .strict: return false
        }
    }
}
