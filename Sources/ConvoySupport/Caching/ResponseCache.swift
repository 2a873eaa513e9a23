/// A cache of responses (RFC 9111), as the transport asks it, for each hop of a request anew. Nothing here blocks.
package protocol ResponseCache: AnyObject, Sendable {
    /// Begins the exchange of a request.
    func begin(_ request: CacheRequest) -> any ResponseCacheExchange

    /// Text that makes digests of secrets useless elsewhere. It is as old as what is stored.
    var salt: String { get }
}

/// A request and its response, between a transfer and the cache.
package protocol ResponseCacheExchange: AnyObject, Sendable {
    /// Whether there is a stored response, if no file is needed for the answer; nil if ``lookUpInFiles(_:)`` must be called.
    func lookUp() -> CacheAnswer?

    /// The same with files, after ``lookUp()`` has said that they are needed. Calls back once, later on a queue of the
    /// cache.
    func lookUpInFiles(_ then: @escaping @Sendable (CacheAnswer) -> Void)

    /// The request is being sent: the age of the response counts from now (RFC 9111, section 4.2.3). Without this call, it
    /// counts from the answer.
    func willSend()

    /// Whether ``receive(_:)`` must be called even for a head that says nothing of caching, as stored responses may be
    /// concerned.
    var needsHead: Bool { get }

    /// What to do with the head of a response from the network, after a lookup has said that one is needed.
    func receive(_ head: CachedHead) -> CacheReaction

    /// The transfer has failed. Returns a stale response that may be served in such a case.
    func failed() -> (any ServableResponse)?

    /// The exchange has ended without any of the above.
    func cancel()
}

/// Takes the body of a response that is being stored. Its methods are called one at a time.
package protocol ResponseCacheWriter: AnyObject, Sendable {
    /// Whether it has not given up, as it does when the body is too large, or the disk too slow.
    var isStoring: Bool { get }

    /// Takes bytes as they were received, before content decoding.
    func write(_ bytes: UnsafeRawBufferPointer)

    /// The body is complete. Calls back when another exchange would find it, perhaps at once.
    func finish(_ then: @escaping @Sendable () -> Void)

    /// The body is not complete and never will be: nothing of it is kept.
    func abandon()
}

/// A response out of the cache. It can be read as long as the object lives, whatever becomes of its entry.
package protocol ServableResponse: AnyObject, Sendable {
    var head: CachedHead { get }
    /// How many bytes the body has.
    var length: Int { get }
    /// The body, if it is in memory.
    var bytes: [UInt8]? { get }
    var use: StoredUse { get }

    /// Reads a part of the body. Calls back on a queue of the cache.
    func read(at offset: Int, count: Int, _ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void)
}

/// A cache as part of a configuration: two are equal if they are one.
package struct ResponseCacheReference: Sendable, Hashable {
    package let cache: any ResponseCache

    package init(_ cache: any ResponseCache) { self.cache = cache }

    package static func == (one: Self, other: Self) -> Bool { one.cache === other.cache }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(cache)) }
}
