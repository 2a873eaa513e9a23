import Foundation

/// Where a request goes, as far as it matters for cookies (RFC 6265bis, section 5.1).
package struct CookiePlace: Sendable, Hashable {
    /// In lower case; an IPv6 address without brackets.
    package let host: String
    /// Without the query; `/` where there is none.
    package let path: String
    /// Whether the request travels over TLS.
    package let isSecure: Bool

    package init(host: String, path: String, isSecure: Bool) {
        self.host = host
        self.path = path.isEmpty ? "/" : path
        self.isSecure = isSecure
    }
}

/// A request that asks for its cookies.
package struct CookieRequest: Sendable {
    package let place: CookiePlace
    /// On whose behalf the request is made: `URLRequest.mainDocumentURL`. nil for the server's own.
    package let site: URL?
    /// Whether its method only reads (RFC 9110, section 9.2.1).
    package let isSafeMethod: Bool

    package init(place: CookiePlace, site: URL?, isSafeMethod: Bool) {
        self.place = place
        self.site = site
        self.isSafeMethod = isSafeMethod
    }
}

/// What keeps the cookies of a transfer, as the transport asks it. Nothing here may block, unless it says so.
package protocol CookieKeeper: AnyObject, Sendable {
    /// Whether there are none, so that requests need not ask.
    var isEmpty: Bool { get }
    /// Rises with each change.
    var revision: UInt64 { get }
    /// Whether somebody wants to see cookies before they are taken.
    var asksBeforeAccepting: Bool { get }

    /// The value of the `Cookie` field of a request; nil for none.
    func fieldBytes(for request: CookieRequest) -> [UInt8]?

    /// Takes the values of the `Set-Cookie` fields of a response, without asking anybody.
    func take(_ fields: [[UInt8]], from place: CookiePlace, url: URL)

    /// The same, but asks first, on the calling thread, which that may block.
    func takeAsking(_ fields: [[UInt8]], from place: CookiePlace, url: URL)
}

/// A keeper as part of a configuration: two are equal if they are one.
package struct CookieKeeperReference: Sendable, Hashable {
    package let keeper: any CookieKeeper

    package init(_ keeper: any CookieKeeper) { self.keeper = keeper }

    package static func == (one: Self, other: Self) -> Bool { one.keeper === other.keeper }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(keeper)) }
}
