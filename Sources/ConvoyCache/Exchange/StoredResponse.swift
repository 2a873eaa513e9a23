/// Why a stored response may be served.
package enum StoredUse: Sendable, Hashable {
    /// It is fresh.
    case fresh
    /// It is stale, and is being revalidated in the background (RFC 5861, section 3).
    case staleWhileRevalidate
    /// It is stale, and the origin has failed (RFC 5861, section 4).
    case staleIfError
    /// It is stale, and the request accepts that (`max-stale`, RFC 9111, section 5.2.1.2).
    case maxStale
    /// The origin has confirmed it.
    case validated
    /// The request's policy is to ignore its age.
    case ignoringAge
}

/// A stored response that may be served. While the object lives, its body cannot be taken away: eviction, replacement
/// and removal, by another process too, only end that others find it.
package final class StoredResponse: Sendable {
    /// The head, with `Age` (RFC 9111, section 5.1).
    package let head: CachedHead
    /// Why it may be served.
    package let use: StoredUse
    let body: StoredBody

    init(head: CachedHead, use: StoredUse, body: StoredBody) {
        self.head = head
        self.use = use
        self.body = body
    }

    /// How many bytes the body has; 0 for the answer to HEAD and for a 304.
    package var length: Int { body.count }

    /// The whole body, if it is in memory.
    package var bytes: [UInt8]? { body.bytes }

    /// Reads a part of the body, on the cache's queue for files, or at once if the body is in memory.
    ///
    /// - Parameters:
    ///   - offset: of the first byte.
    ///   - count: how many bytes at most; fewer arrive at the end of the body only.
    package func read(
        at offset: Int, count: Int, _ then: @escaping @Sendable (Result<[UInt8], CacheError>) -> Void
    ) {
        body.read(at: offset, count: count, then)
    }
}
