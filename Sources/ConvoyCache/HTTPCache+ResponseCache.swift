import ConvoySupport
import Foundation

/// What the transport asks of a cache.
extension HTTPCache: ResponseCache {
    package func begin(_ request: CacheRequest) -> any ResponseCacheExchange { exchange(for: request) }

    package var salt: String { storage.salt }
}
