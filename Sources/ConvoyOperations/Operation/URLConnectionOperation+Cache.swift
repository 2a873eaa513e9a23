import ConvoyCache
import ConvoySupport
import ConvoyTransport
import Foundation

extension URLConnectionOperation {
    /// A closure that decides whether a response is stored. It returns the response, possibly modified, or nil to store
    /// nothing.
    public typealias CacheResponseHandler =
        @Sendable (_ operation: URLConnectionOperation, _ candidate: CacheCandidate) -> CacheCandidate?

    /// The handler called before a complete response is stored in `cache`. The counterpart of `setCacheResponseBlock:`.
    /// It runs on an internal thread, which it may block; the operation waits for its result.
    ///
    /// An operation with this handler does not share its transfer with others (`coalescesIdenticalRequests`).
    public final var cacheResponseHandler: CacheResponseHandler? {
        get { handler(\.cache) }
        set {
            if newValue != nil { reportLateChange(of: "cacheResponseHandler") }
            setHandler(\.cache, newValue)
        }
    }

    /// The way in which the cache served the response; nil for a response from the network, or before a response has
    /// arrived.
    public final var cacheUse: CacheUse? { currentHead?.cacheUse }
}

/// A cache that calls one operation's `cacheResponseHandler`.
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
