import Foundation

/// The URL of a request that needs cookies, or whose response sets cookies, split as libcurl splits it.
package struct CookieTarget: Sendable {
    /// The host, in upper or lower case, with or without brackets.
    package let host: String
    /// The path, without the query.
    package let path: String
    /// Whether the request uses TLS.
    package let isSecure: Bool

    package init(host: String, path: String, isSecure: Bool) {
        self.host = host
        self.path = path
        self.isSecure = isSecure
    }
}

/// A store of cookies for the transport. Members must not block unless their documentation says otherwise.
package protocol CookieStorage: AnyObject, Sendable {
    /// Whether the store contains no cookies, so that requests can skip the lookup.
    var isEmpty: Bool { get }
    /// A number that increases with each change.
    var revision: UInt64 { get }
    /// An identifier of the store. Stores with the same file have the same identifier, even in different processes.
    var identity: String { get }
    /// Whether a handler decides which cookies are stored.
    var asksBeforeAccepting: Bool { get }
    /// The maximum number of `Set-Cookie` fields read from a response, starting with the first. A server may send
    /// thousands, and they are parsed on the network thread.
    var fieldLimit: Int { get }

    /// Returns the value of the `Cookie` field for a request, or nil if no cookie matches the request.
    ///
    /// - Parameters:
    ///   - site: The site that makes the request, `URLRequest.mainDocumentURL`; nil for the server's own site.
    ///   - isSafeMethod: Whether the request's method is safe (RFC 9110, section 9.2.1).
    func field(for target: CookieTarget, site: URL?, isSafeMethod: Bool) -> [UInt8]?

    /// Stores the cookies of a response's `Set-Cookie` fields, without calling the handler.
    func take(_ fields: [[UInt8]], from target: CookieTarget, url: URL)

    /// Stores cookies like `take`, but first calls the handler on the calling thread. The handler may block.
    func takeAsking(_ fields: [[UInt8]], from target: CookieTarget, url: URL)
}

/// A cookie store as part of a configuration, compared by reference.
package struct CookieKeeperReference: Sendable, Hashable {
    package let keeper: any CookieStorage

    package init(_ keeper: any CookieStorage) { self.keeper = keeper }

    package static func == (one: Self, other: Self) -> Bool { one.keeper === other.keeper }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(keeper)) }
}
