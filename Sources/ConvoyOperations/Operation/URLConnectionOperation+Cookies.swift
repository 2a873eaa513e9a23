import ConvoyCookies
import ConvoySupport
import Foundation
import FoundationNetworking

/// Cookies.
extension URLConnectionOperation {
    /// What keeps the cookies: it has those of the requests, and takes those of the responses, also of redirects (RFC
    /// 6265bis). The operations of a manager have the manager's; others have none, unless they are given one.
    ///
    /// A request with `httpShouldHandleCookies` false neither sends nor takes cookies. One with a `Cookie` field of its own
    /// sends that alone. `mainDocumentURL` is the site for which the request is made, where cookies are for their own site
    /// only (`SameSite`); without one, each request counts as made by its server's site. What a proxy sets with a 407, or
    /// in its answer to CONNECT, is not taken.
    public final var cookieStore: CookieStore? {
        get { core.withLock { $0.common.values.cookies?.keeper as? CookieStore } }
        set { set(\.cookies, to: newValue.map { CookieKeeperReference($0) }) }
    }
}
