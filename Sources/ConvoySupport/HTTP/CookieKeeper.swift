import Foundation

/// A request that asks for its cookies, or whose response sets some, as libcurl reads its URL.
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

/// What keeps the cookies of a transfer, as the transport asks it. Nothing here may block, unless it says so.
package protocol CookieKeeper: AnyObject, Sendable {
    /// Whether there are none, so that requests need not ask.
    var isEmpty: Bool { get }
    /// Rises with each change.
    var revision: UInt64 { get }
    /// What tells it from other keepers: for one that keeps its cookies beyond the process, in other processes too.
    var identity: String { get }
    /// Whether somebody wants to see cookies before they are taken.
    var asksBeforeAccepting: Bool { get }
    /// How many `Set-Cookie` fields of a response are looked at: the first ones. A server may send thousands, and they are
    /// taken on the network thread.
    var fieldLimit: Int { get }

    /// The value of the `Cookie` field of a request; nil for none.
    ///
    /// - Parameters:
    ///   - site: on whose behalf the request is made, `URLRequest.mainDocumentURL`; nil for the server's own.
    ///   - isSafeMethod: whether its method only reads (RFC 9110, section 9.2.1).
    func field(for target: CookieTarget, site: URL?, isSafeMethod: Bool) -> [UInt8]?

    /// Takes the values of the `Set-Cookie` fields of a response, without asking anybody.
    func take(_ fields: [[UInt8]], from target: CookieTarget, url: URL)

    /// The same, but asks first, on the calling thread, which that may block.
    func takeAsking(_ fields: [[UInt8]], from target: CookieTarget, url: URL)
}

/// A keeper as part of a configuration: two are equal if they are one.
package struct CookieKeeperReference: Sendable, Hashable {
    package let keeper: any CookieKeeper

    package init(_ keeper: any CookieKeeper) { self.keeper = keeper }

    package static func == (one: Self, other: Self) -> Bool { one.keeper === other.keeper }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(keeper)) }
}
