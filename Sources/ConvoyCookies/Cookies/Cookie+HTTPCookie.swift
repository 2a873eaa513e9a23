import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

extension Cookie {
    /// The cookie of a Foundation value. A domain with a leading dot means that hosts below it get it, too.
    ///
    /// Foundation on Linux drops `SameSite`, and `Max-Age` of cookies that are not of version 1: these are lost before.
    public init(_ cookie: HTTPCookie) {
        self.init(
            name: cookie.name, value: cookie.value, domain: cookie.domain, isHostOnly: !cookie.domain.hasPrefix("."),
            path: cookie.path.hasPrefix("/") ? cookie.path : "/", isSecure: cookie.isSecure,
            isHTTPOnly: cookie.isHTTPOnly, sameSite: .unspecified, expires: cookie.expiresDate)
    }

    /// The Foundation value, with a leading dot before the domain if hosts below it get it, too; nil if Foundation
    /// refuses it.
    ///
    /// What Foundation on Linux has no place for is lost: `SameSite`, the times of its creation and its last use, and
    /// bytes that are not UTF-8.
    public var httpCookie: HTTPCookie? {
        var properties: [HTTPCookiePropertyKey: Any] = [
            .name: name, .value: value, .domain: isHostOnly ? domain : "." + domain, .path: path,
        ]
        if isSecure { properties[.secure] = "TRUE" }
        if isHTTPOnly { properties[HTTPCookiePropertyKey("HttpOnly")] = "TRUE" }
        if let expires { properties[.expires] = expires }
        return HTTPCookie(properties: properties)
    }
}
