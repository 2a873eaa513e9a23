import ConvoyCache
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The cache of responses.
extension URLConnectionOperation {
    /// Sees a response that is about to be stored. Returns it, or a changed one, or nil to store nothing.
    public typealias CacheResponseHandler =
        @Sendable (_ operation: URLConnectionOperation, _ candidate: CacheCandidate) -> CacheCandidate?

    /// The cache that answers requests and stores responses (RFC 9111). None by default; the operations of a manager have
    /// the manager's.
    ///
    /// `URLRequest.cachePolicy` says what a request wants of it. A response out of the cache arrives as one from the network
    /// does, with the same handlers, notifications and order; ``cacheUse`` tells them apart. It holds the bytes that the
    /// server sent, before content decoding. Responses to requests that say who sends them (by `credential`, a token, cookies
    /// of a store, a client certificate, a field that is secret) are served only to requests that say the same; with an
    /// `identity`, only to those of that name.
    public final var cache: HTTPCache? {
        get { core.withLock { $0.common.values.cache?.cache as? HTTPCache } }
        set { set(\.cache, to: newValue.map { ResponseCacheReference($0) }) }
    }

    /// Called before a response is stored in ``cache``, when its body is complete. The counterpart of
    /// `setCacheResponseBlock:`. On one of the library's threads, which it may block; the operation waits for it.
    ///
    /// An operation with this handler shares its transfer with nobody (`coalescesIdenticalRequests`).
    public final var cacheResponseHandler: CacheResponseHandler? {
        get { core.withLock { $0.rareHandlers?.cache } }
        set { setHandler(\.cache, newValue) }
    }

    /// How the response came out of the cache; nil for one that came from the network, and before there is one.
    public final var cacheUse: CacheUse? { core.withLock { $0.head?.cacheUse } }
}

/// A cache of which one operation wants to see what is stored.
final class HandledCache: ResponseCache {
    private let base: HTTPCache
    private let handler: @Sendable (CacheCandidate) -> CacheCandidate?

    init(_ base: HTTPCache, handler: @escaping @Sendable (CacheCandidate) -> CacheCandidate?) {
        self.base = base
        self.handler = handler
    }

    func begin(_ request: CacheRequest) -> any ResponseCacheExchange { base.exchange(for: request, handler: handler) }

    var salt: String { base.salt }
}
