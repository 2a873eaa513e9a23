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

/// A request as a cache sees it: one hop, with all fields that are sent.
package struct CacheRequest: Sendable {
    package let method: String
    package let address: String
    package let fields: [(name: String, value: String)]
    package let policy: CachePolicy
    package let partition: String
    package let hasBody: Bool

    /// - Parameters:
    ///   - method: case-sensitive, as methods are.
    ///   - address: the absolute URL of the hop, in any spelling, with or without a fragment.
    ///   - fields: all fields that are sent, in their order, including those that the engine adds; responses can vary
    ///     by each of them.
    ///   - policy: how stored responses are to be used.
    ///   - partition: opaque. What was stored in one partition is never served to another.
    ///   - hasBody: whether a body is sent. The response to such a request is neither stored nor taken from the cache.
    package init(
        method: String, address: String, fields: [(name: String, value: String)], policy: CachePolicy,
        partition: String, hasBody: Bool
    ) {
        self.method = method
        self.address = address
        self.fields = fields
        self.policy = policy
        self.partition = partition
        self.hasBody = hasBody
    }
}

/// What a request wants of a cache: the cases of `URLRequest.CachePolicy`.
package enum CachePolicy: Sendable, Hashable {
    /// What the protocol allows.
    case protocolPolicy
    /// The network, whatever is stored.
    case reload
    /// What is stored, but only after the server has said that it is still good.
    case reloadRevalidating
    /// What is stored, whatever its age, or else the network.
    case storedElseLoad
    /// What is stored, whatever its age, or else nothing.
    case storedOnly
}

/// The status and the fields of a response, as text from which the bytes can be had back.
package struct CachedHead: Sendable {
    package let statusCode: Int
    package let fields: [(name: String, value: String)]
    /// Of a stored response, in seconds: what is served as `Age`, which is not among the fields then. Apart from them, so
    /// that they need not be copied for each request.
    package let age: Int64?

    package init(statusCode: Int, fields: [(name: String, value: String)], age: Int64? = nil) {
        self.statusCode = statusCode
        self.fields = fields
        self.age = age
    }

    /// The fields with `Age`.
    package var allFields: [(name: String, value: String)] { age.map { fields + [("Age", String($0))] } ?? fields }
}

/// Whether a cache has a response.
package enum CacheAnswer: Sendable {
    /// It has none; the request is sent as it is.
    case miss
    /// It has one that can be served. `revalidates`: meanwhile the server is to be asked for a new one.
    case hit(any ServableResponse, revalidates: Bool)
    /// It has one, but the request must be sent with these fields first, byte for byte.
    case validate(fields: [(name: String, value: [UInt8])])
    /// The request must not be sent, and there is nothing to serve.
    case unavailable(CacheUnavailable)
}

/// Why a request that must not be sent has no response.
package enum CacheUnavailable: Sendable, Hashable {
    /// Nothing is stored that matches it.
    case notStored
    /// The request allows only what is stored (`only-if-cached`), and that is too old.
    case stale
}

/// What becomes of a response from the network.
package enum CacheReaction: Sendable {
    /// It is delivered, and not stored.
    case pass
    /// It is delivered, and its body is given to the writer.
    case store(any ResponseCacheWriter)
    /// A stored response is delivered in its place.
    case serveStored(any ServableResponse)
}

/// How a response came out of a cache (RFC 9111, section 4).
package enum StoredUse: String, Sendable, Hashable {
    /// It was fresh.
    case fresh
    /// The server has said that it is still good.
    case validated
    /// It was stale, but not for longer than the request allows (`max-stale`).
    case maxStale
    /// It was stale, and is being asked for anew meanwhile (RFC 5861, section 3).
    case staleWhileRevalidate
    /// It was stale, but the server could not be reached or had an error (RFC 5861, section 4).
    case staleIfError
    /// The request wanted what is stored, whatever its age.
    case ignoringAge
}
