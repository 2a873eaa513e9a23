/// A cache of responses (RFC 9111), as the transport uses it, once for each hop of a request. No member blocks.
package protocol ResponseCache: AnyObject, Sendable {
    /// Begins the exchange of a request.
    func begin(_ request: CacheRequest) -> any ResponseCacheExchange

    /// Random text that makes digests of secrets useless in other caches. It is stored with the responses.
    var salt: String { get }
}

/// A request and its response, between a transfer and the cache.
package protocol ResponseCacheExchange: AnyObject, Sendable {
    /// Looks for a stored response in memory; nil if the answer needs a file, in which case ``lookUpInFiles(_:)`` must
    /// be called.
    func lookUp() -> CacheAnswer?

    /// Looks for a stored response in files, after ``lookUp()`` returned nil. Calls back once, asynchronously, on a
    /// queue of the cache.
    func lookUpInFiles(_ then: @escaping @Sendable (CacheAnswer) -> Void)

    /// Notes that the request is being sent: the age of the response counts from now (RFC 9111, section 4.2.3). Without
    /// this call, it counts from the response.
    func willSend()

    /// Whether ``receive(_:)`` must be called even for a head without caching fields, as it may concern stored
    /// responses.
    var needsHead: Bool { get }

    /// Decides about the head of a response from the network, after a lookup that found none to serve.
    func receive(_ head: CachedHead) -> CacheReaction

    /// Notes that the transfer has failed. Returns a stale response that may be served instead.
    func failed() -> (any ServableResponse)?

    /// Ends the exchange before any of the above has.
    func cancel()
}

/// Receives the body of a response that is being stored. Its methods are called one at a time.
package protocol ResponseCacheWriter: AnyObject, Sendable {
    /// False once the writer has given up, as the body is too large or the disk too slow.
    var isStoring: Bool { get }

    /// Takes bytes as they were received, before content decoding.
    func write(_ bytes: UnsafeRawBufferPointer)

    /// Notes that the body is complete. Calls back when the response can be found, perhaps at once.
    func finish(_ then: @escaping @Sendable () -> Void)

    /// Notes that the body will never be complete; nothing is kept.
    func abandon()
}

/// A response from the cache. It stays readable while the object lives, even if its entry is removed.
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

/// A cache as part of a configuration, compared by reference.
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

/// How a request may use stored responses: the cases of `URLRequest.CachePolicy`.
package enum CachePolicy: Sendable, Hashable {
    /// As HTTP allows.
    case protocolPolicy
    /// Always asks the server.
    case reload
    /// Uses a stored response only after the server has validated it.
    case reloadRevalidating
    /// Uses a stored response of any age, or else the network.
    case storedElseLoad
    /// Uses a stored response of any age, or else fails.
    case storedOnly
}

/// The status and the fields of a response, in text that preserves all bytes.
package struct CachedHead: Sendable {
    package let statusCode: Int
    package let fields: [(name: String, value: String)]
    /// The value of `Age` of a stored response, in seconds. It is not among `fields`, so that these need not be copied
    /// for each request.
    package let age: Int64?

    package init(statusCode: Int, fields: [(name: String, value: String)], age: Int64? = nil) {
        self.statusCode = statusCode
        self.fields = fields
        self.age = age
    }

    /// The fields with `Age`.
    package var allFields: [(name: String, value: String)] { age.map { fields + [("Age", String($0))] } ?? fields }
}

/// The result of a lookup.
package enum CacheAnswer: Sendable {
    /// No stored response; the request is sent unchanged.
    case miss
    /// A stored response can be served. `revalidates`: the cache asks the server for a new one meanwhile.
    case hit(any ServableResponse, revalidates: Bool)
    /// A stored response must be validated: the request is sent with these fields added, byte for byte.
    case validate(fields: [(name: String, value: [UInt8])])
    /// The request must not be sent, and no stored response can be served.
    case unavailable(CacheUnavailable)
}

/// Why a request that must not be sent has no stored response.
package enum CacheUnavailable: Sendable, Hashable {
    /// No stored response matches it.
    case notStored
    /// The request allows only stored responses (`only-if-cached`), and this one is too old.
    case stale
}

/// What to do with a response from the network.
package enum CacheReaction: Sendable {
    /// Deliver it without storing it.
    case pass
    /// Deliver it, and pass its body to the writer.
    case store(any ResponseCacheWriter)
    /// Deliver a stored response instead.
    case serveStored(any ServableResponse)
}

/// Why a stored response was served (RFC 9111, section 4).
package enum StoredUse: String, Sendable, Hashable {
    /// The response was fresh.
    case fresh
    /// The server has validated it.
    case validated
    /// The response was stale, but within the request's `max-stale`.
    case maxStale
    /// The response was stale, and the cache asks for a new one meanwhile (RFC 5861, section 3).
    case staleWhileRevalidate
    /// The response was stale, but the server could not be reached or had an error (RFC 5861, section 4).
    case staleIfError
    /// The request accepts stored responses of any age.
    case ignoringAge
}
