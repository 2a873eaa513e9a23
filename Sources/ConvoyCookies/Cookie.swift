import ConvoySupport
import Foundation
import FoundationNetworking

extension CookieStore {
    /// A cookie as kept in a store (RFC 6265bis, section 5.7).
    ///
    /// This is a plain value. ``CookieStore/setCookie(_:for:)-(CookieStore.Cookie,_)`` decides whether a store accepts
    /// it.
    public struct Cookie: Sendable, Hashable {
        /// The restriction on sending a cookie with requests caused by another site.
        public enum SameSite: Int, Sendable, Hashable, CaseIterable {
            /// The server has not specified a restriction. Treated as ``lax``.
            case unspecified = 0
            /// The cookie is sent with all cross-site requests.
            case none = 1
            /// The cookie is sent only with cross-site requests that use safe methods.
            case lax = 2
            /// The cookie is not sent with cross-site requests.
            case strict = 3
        }

        /// The name and the value as sent by the server, which need not be UTF-8. Requests send the same bytes back.
        package var nameBytes: [UInt8]
        package var valueBytes: [UInt8]
        /// The host, or the domain including its subdomains: in lower case, without a leading dot, and in ASCII
        /// (`xn--`).
        public var domain: String
        /// Whether the cookie is sent only to the host itself, and not to its subdomains.
        public var isHostOnly: Bool
        /// The path below which the cookie is sent. It begins with a slash.
        public var path: String
        /// Whether the cookie is sent only over TLS, even to loopback addresses.
        public var isSecure: Bool
        /// Whether browsers hide the cookie from scripts. It has no effect in this library.
        public var isHTTPOnly: Bool
        /// The restriction on sending the cookie with requests caused by another site.
        public var sameSite: SameSite
        /// The time of expiry, in microseconds since 1970, like the other times; nil for a session cookie.
        package var expiryTime: Int64?
        package var creationTime: Int64
        package var accessTime: Int64

        /// Creates a cookie.
        ///
        /// - Parameters:
        ///   - name: The name. If empty, only the value is sent.
        ///   - value: The value.
        ///   - domain: A host or a domain. A leading dot is ignored.
        ///   - isHostOnly: Whether the cookie is sent only to the host itself.
        ///   - path: The path, which begins with a slash.
        ///   - isSecure: Whether the cookie is sent only over TLS.
        ///   - isHTTPOnly: Whether browsers hide the cookie from scripts.
        ///   - sameSite: The restriction on sending the cookie with requests caused by another site.
        ///   - expires: The time of expiry, with a precision of a microsecond; nil for a session cookie.
        ///   - creation: The time of creation. If two cookies have paths of the same length, the older one is sent
        ///     first.
        public init(
            name: String, value: String, domain: String, isHostOnly: Bool = true, path: String = "/",
            isSecure: Bool = false, isHTTPOnly: Bool = false, sameSite: SameSite = .unspecified, expires: Date? = nil,
            creation: Date = Date()
        ) {
            let time = CookieTime.microseconds(creation)
            self.init(
                nameBytes: Array(name.utf8), valueBytes: Array(value.utf8),
                domain: HostName.normalized(domain.hasPrefix(".") ? String(domain.dropFirst()) : domain) ?? domain,
                isHostOnly: isHostOnly, path: path, isSecure: isSecure, isHTTPOnly: isHTTPOnly, sameSite: sameSite,
                expiryTime: expires.map(CookieTime.microseconds), creationTime: time, accessTime: time)
        }

        package init(
            nameBytes: [UInt8], valueBytes: [UInt8], domain: String, isHostOnly: Bool, path: String, isSecure: Bool,
            isHTTPOnly: Bool, sameSite: SameSite, expiryTime: Int64?, creationTime: Int64, accessTime: Int64
        ) {
            self.nameBytes = nameBytes
            self.valueBytes = valueBytes
            self.domain = domain
            self.isHostOnly = isHostOnly
            self.path = path
            self.isSecure = isSecure
            self.isHTTPOnly = isHTTPOnly
            self.sameSite = sameSite
            self.expiryTime = expiryTime
            self.creationTime = creationTime
            self.accessTime = accessTime
        }

        // MARK: Texts and dates

        /// The name, decoded as UTF-8 or, if that is invalid, as Latin-1.
        public var name: String {
            get { ASCII.text(nameBytes[...]) }
            set { nameBytes = Array(newValue.utf8) }
        }

        /// The value, decoded as UTF-8 or, if that is invalid, as Latin-1. Usually a secret.
        public var value: String {
            get { ASCII.text(valueBytes[...]) }
            set { valueBytes = Array(newValue.utf8) }
        }

        /// The time of expiry; nil for a session cookie.
        public var expires: Date? {
            get { expiryTime.map(CookieTime.date) }
            set { expiryTime = newValue.map(CookieTime.microseconds) }
        }

        /// The time at which a cookie with this name, domain and path was first set.
        public var creation: Date {
            get { CookieTime.date(creationTime) }
            set { creationTime = CookieTime.microseconds(newValue) }
        }

        /// The time at which the cookie was last set or sent. The least recently used cookies are evicted first.
        public var lastAccess: Date {
            get { CookieTime.date(accessTime) }
            set { accessTime = CookieTime.microseconds(newValue) }
        }

        func isExpired(at now: Int64) -> Bool { expiryTime.map { $0 <= now } ?? false }
    }
}

package typealias Cookie = CookieStore.Cookie

extension Cookie: CustomStringConvertible, OpaqueReflectable {
    /// The name, domain, path and attributes, without the value.
    public var description: String {
        var parts = [name, "domain=\(domain)\(isHostOnly ? " (this host only)" : "")", "path=\(path)"]
        if isSecure { parts.append("secure") }
        if isHTTPOnly { parts.append("httponly") }
        if sameSite != .unspecified { parts.append("samesite=\(sameSite)") }
        parts.append(expires.map { "expires=\(HTTPDate.string($0))" } ?? "session")
        return parts.joined(separator: "; ")
    }
}

/// The identity of a cookie (section 5.7, step 23). A cookie replaces another one with the same key.
struct CookieKey: Hashable, Sendable {
    let name: [UInt8]
    let domain: String
    let path: String
    let isHostOnly: Bool

    init(_ cookie: Cookie) {
        name = cookie.nameBytes
        domain = cookie.domain
        path = cookie.path
        isHostOnly = cookie.isHostOnly
    }

    init(name: [UInt8], domain: String, path: String, isHostOnly: Bool) {
        self.name = name
        self.domain = domain
        self.path = path
        self.isHostOnly = isHostOnly
    }
}

extension Cookie {
    /// Returns whether the cookie has this key, which is cheaper than creating the cookie's key.
    func has(_ key: CookieKey) -> Bool {
        isHostOnly == key.isHostOnly && nameBytes == key.name && path == key.path && domain == key.domain
    }
}

extension Cookie {
    /// Converts a Foundation cookie. A domain with a leading dot includes its subdomains.
    ///
    /// Foundation on Linux drops `SameSite`, and `Max-Age` of version 0 cookies, when it creates the value.
    public init(_ cookie: HTTPCookie) {
        self.init(
            name: cookie.name, value: cookie.value, domain: cookie.domain, isHostOnly: !cookie.domain.hasPrefix("."),
            path: cookie.path.hasPrefix("/") ? cookie.path : "/", isSecure: cookie.isSecure,
            isHTTPOnly: cookie.isHTTPOnly, sameSite: .unspecified, expires: cookie.expiresDate)
    }

    /// The cookie as a Foundation value, with a leading dot if the domain includes its subdomains; nil if Foundation
    /// rejects it.
    ///
    /// Foundation on Linux cannot represent `SameSite`, the times of creation and last use, or bytes that are not
    /// UTF-8. These are lost.
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
