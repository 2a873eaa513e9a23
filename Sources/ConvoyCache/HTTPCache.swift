/// A private HTTP cache (RFC 9111).
public final class HTTPCache: Sendable {
    /// A cache in memory, which is forgotten with its object.
    ///
    /// - Parameter memoryCapacity: in bytes, of heads and bodies.
    public init(memoryCapacity: Int = 32 << 20) {}
}

extension HTTPCache {
    /// Begins an exchange. Never blocks.
    package func exchange(for request: CacheRequest) -> CacheExchange { CacheExchange() }
}
