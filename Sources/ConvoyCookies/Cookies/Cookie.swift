import ConvoySupport
import Foundation

/// A cookie as a store keeps it (RFC 6265bis, section 5.7).
///
/// A value without behavior: whether a store accepts it is decided by ``CookieStore/setCookie(_:for:)-(Cookie,_)``.
public struct Cookie: Sendable, Hashable {
    /// When a cookie is sent with requests that another site has caused.
    public enum SameSite: Int, Sendable, Hashable, CaseIterable {
        /// The server has not said. Treated as ``lax``.
        case unspecified = 0
        /// With all requests.
        case none = 1
        /// With requests of safe methods.
        case lax = 2
        /// With none.
        case strict = 3
    }

    /// The name and the value as the server sent them, which need not be UTF-8: it gets these bytes back.
    package var nameBytes: [UInt8]
    package var valueBytes: [UInt8]
    /// The host, or the domain whose hosts all get it: in lower case, without a leading dot, in ASCII (`xn--`).
    public var domain: String
    /// Whether only the host itself gets it, not those below it.
    public var isHostOnly: Bool
    /// The path below which it is sent, beginning with a slash.
    public var path: String
    /// Whether it is sent over TLS only. Loopback addresses make no difference.
    public var isSecure: Bool
    /// Whether scripts in a browser must not see it. For this library, all requests count as HTTP.
    public var isHTTPOnly: Bool
    /// When it is sent with requests that another site has caused.
    public var sameSite: SameSite
    /// Microseconds since 1970.
    package var expiryTime: Int64?
    package var creationTime: Int64
    package var accessTime: Int64

    /// - Parameters:
    ///   - name: may be empty; then only the value is sent.
    ///   - value: its value.
    ///   - domain: a host or a domain. A leading dot is dropped, and has no meaning.
    ///   - isHostOnly: whether only the host itself gets it.
    ///   - path: begins with a slash.
    ///   - isSecure: whether it is sent over TLS only.
    ///   - isHTTPOnly: whether scripts in a browser must not see it.
    ///   - sameSite: when it is sent with requests that another site has caused.
    ///   - expires: when it ends, to the microsecond; nil for a session cookie.
    ///   - creation: when it was created. Of two cookies with paths of the same length, the older one is sent first.
    public init(
        name: String, value: String, domain: String, isHostOnly: Bool = true, path: String = "/",
        isSecure: Bool = false, isHTTPOnly: Bool = false, sameSite: SameSite = .unspecified, expires: Date? = nil,
        creation: Date = Date()
    ) {
        let time = CookieTime.microseconds(creation)
        self.init(
            nameBytes: Array(name.utf8), valueBytes: Array(value.utf8),
            domain: CookieHost.normalized(domain.hasPrefix(".") ? String(domain.dropFirst()) : domain) ?? domain,
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

    /// The name; decoded as Latin-1 if it is not UTF-8.
    public var name: String {
        get { ASCII.text(nameBytes[...]) }
        set { nameBytes = Array(newValue.utf8) }
    }

    /// The value; decoded as Latin-1 if it is not UTF-8. A secret, as a rule.
    public var value: String {
        get { ASCII.text(valueBytes[...]) }
        set { valueBytes = Array(newValue.utf8) }
    }

    /// When it ends; nil for a session cookie.
    public var expires: Date? {
        get { expiryTime.map(CookieTime.date) }
        set { expiryTime = newValue.map(CookieTime.microseconds) }
    }

    /// When a cookie of this name, domain and path was first set.
    public var creation: Date {
        get { CookieTime.date(creationTime) }
        set { creationTime = CookieTime.microseconds(newValue) }
    }

    /// When it was last set or sent. Cookies that were not used for long are dropped first where there are too many.
    public var lastAccess: Date {
        get { CookieTime.date(accessTime) }
        set { accessTime = CookieTime.microseconds(newValue) }
    }

    func isExpired(at now: Int64) -> Bool { expiryTime.map { $0 <= now } ?? false }
}

extension Cookie: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// What it is for, without its value.
    public var description: String {
        var parts = [name, "domain=\(domain)\(isHostOnly ? " (this host only)" : "")", "path=\(path)"]
        if isSecure { parts.append("secure") }
        if isHTTPOnly { parts.append("httponly") }
        if sameSite != .unspecified { parts.append("samesite=\(sameSite)") }
        parts.append(expires.map { "expires=\(HTTPDate.string($0))" } ?? "session")
        return parts.joined(separator: "; ")
    }

    /// The same as ``description``: a value does not get into logs by the way in which it is printed.
    public var debugDescription: String { description }

    /// Nothing, for the same reason: `dump` would write all members out.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// What makes two cookies the same one (section 5.7, step 23): the second replaces the first.
struct CookieKey: Hashable, Sendable {
    let name: [UInt8]
    let domain: String
    let path: String
    let isHostOnly: Bool

    init(_ cookie: Cookie) {
        (name, domain, path) = (cookie.nameBytes, cookie.domain, cookie.path)
        isHostOnly = cookie.isHostOnly
    }

    init(name: [UInt8], domain: String, path: String, isHostOnly: Bool) {
        (self.name, self.domain, self.path) = (name, domain, path)
        self.isHostOnly = isHostOnly
    }
}

extension Cookie {
    /// Whether it is the cookie of a key; cheaper than making its own.
    func has(_ key: CookieKey) -> Bool {
        isHostOnly == key.isHostOnly && nameBytes == key.name && path == key.path && domain == key.domain
    }
}
