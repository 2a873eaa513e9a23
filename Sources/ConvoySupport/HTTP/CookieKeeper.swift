import Foundation

/// The URL of a request that needs its cookies, or whose response sets some, in the parts that libcurl reads.
package struct CookieTarget: Sendable {
    /// In any case, with or without brackets.
    package let host: String
    /// Without the query.
    package let path: String
    /// Whether the request travels over TLS.
    package let isSecure: Bool

    package init(host: String, path: String, isSecure: Bool) {
        self.host = host
        self.path = path
        self.isSecure = isSecure
    }
}

/// Stores the cookies of a transfer, behind the transport. No member may block, unless its documentation says so.
package protocol CookieKeeper: AnyObject, Sendable {
    /// Whether it stores no cookies, so that requests need not ask.
    var isEmpty: Bool { get }
    /// Rises with each change.
    var revision: UInt64 { get }
    /// Identifies the store among others; for one with a file, in other processes too.
    var identity: String { get }
    /// Whether a handler decides about cookies before they are stored.
    var asksBeforeAccepting: Bool { get }
    /// How many `Set-Cookie` fields of a response are read, from the first on. A server may send thousands, which are
    /// parsed on the network thread.
    var fieldLimit: Int { get }

    /// The value of the `Cookie` field of a request; nil for none.
    ///
    /// - Parameters:
    ///   - site: the site that makes the request, `URLRequest.mainDocumentURL`; nil for the server's own.
    ///   - isSafeMethod: whether its method only reads (RFC 9110, section 9.2.1).
    func field(for target: CookieTarget, site: URL?, isSafeMethod: Bool) -> [UInt8]?

    /// Stores the cookies of a response's `Set-Cookie` fields, without asking the handler.
    func take(_ fields: [[UInt8]], from target: CookieTarget, url: URL)

    /// The same, but calls the handler first, on the calling thread, which it may block.
    func takeAsking(_ fields: [[UInt8]], from target: CookieTarget, url: URL)
}

/// A cookie store as part of a configuration, compared by reference.
package struct CookieKeeperReference: Sendable, Hashable {
    package let keeper: any CookieKeeper

    package init(_ keeper: any CookieKeeper) { self.keeper = keeper }

    package static func == (one: Self, other: Self) -> Bool { one.keeper === other.keeper }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(keeper)) }
}
