import ConvoyCache
import ConvoyCookies
import ConvoySupport
import ConvoyTransport

/// What is kept for later requests: cookies, and responses.
extension HTTPRequestOperationManager {
    /// What keeps the cookies of the operations: a store of the manager's own, in memory, by default. nil for none.
    ///
    /// Give several managers the same store to share it, or one with a file, to keep cookies beyond the process. A copy of
    /// a manager shares its store. Where a manager works for several users, each needs a store (or none). See
    /// `URLConnectionOperation.cookieStore`.
    public final var cookieStore: CookieStore? {
        get { settings.withLock { $0.common.cookies?.keeper as? CookieStore } }
        set { change { $0.cookies = newValue.map { CookieKeeperReference($0) } } }
    }

    /// The cache of the operations; nil, the default, for none. Several managers may share one. See
    /// `URLConnectionOperation.cache`.
    public final var cache: HTTPCache? {
        get { settings.withLock { $0.common.cache?.cache as? HTTPCache } }
        set { change { $0.cache = newValue.map { ResponseCacheReference($0) } } }
    }
}
