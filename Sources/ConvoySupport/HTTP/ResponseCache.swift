/// A cache of responses (RFC 9111), used by the transport for each hop of a request. No member blocks.
package protocol ResponseCache: AnyObject, Sendable {
    /// Begins the exchange of a request.
    func begin(_ request: CacheRequest) -> any ResponseCacheExchange

    /// A random string that makes digests of secrets useless in other caches. It is stored along with the responses.
    var salt: String { get }
}

/// The exchange of a request and its response between a transfer and the cache.
package protocol ResponseCacheExchange: AnyObject, Sendable {
    /// Looks up a stored response in memory. Returns nil if the lookup needs a file; then call ``lookUpInFiles(_:)``.
    func lookUp() -> CacheAnswer?

    /// Looks up a stored response in files, after ``lookUp()`` has returned nil. Calls back once, asynchronously, on a
    /// queue of the cache.
    func lookUpInFiles(_ then: @escaping @Sendable (CacheAnswer) -> Void)

    /// Records that the request is about to be sent. The age of the response is measured from this time (RFC 9111,
    /// section 4.2.3). Without this call, the age is measured from the response.
    func willSend()

    /// Whether ``receive(_:)`` must be called even for a head without caching fields, because stored responses may be
    /// affected.
    var needsHead: Bool { get }

    /// Decides how to handle the head of a response from the network, after a lookup that did not find a response to
    /// serve.
    func receive(_ head: CachedHead) -> CacheReaction

    /// Reports that the transfer has failed. Returns a stale response that may be served instead, if any.
    func failed() -> (any ServableResponse)?

    /// Cancels the exchange. Called only if the exchange has not ended otherwise.
    func cancel()
}

/// A writer for the body of a response that is being stored. Calls must not overlap.
package protocol ResponseCacheWriter: AnyObject, Sendable {
    /// Whether the body is still being stored. False after the writer has given up because the body is too large or the
    /// disk too slow.
    var isStoring: Bool { get }

    /// Receives bytes as they arrive, before content decoding.
    func write(_ bytes: UnsafeRawBufferPointer)

    /// Completes the body. Calls back as soon as the response can be looked up, possibly immediately.
    func finish(_ then: @escaping @Sendable () -> Void)

    /// Reports that the body will never be complete. Nothing is stored.
    func abandon()
}

/// A response from the cache. It remains readable for the lifetime of the object, even if its entry is removed.
package protocol ServableResponse: AnyObject, Sendable {
    var head: CachedHead { get }
    /// The length of the body, in bytes.
    var length: Int { get }
    /// The body, if it is held in memory.
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

/// A request as passed to a cache: a single hop, with all fields that are sent.
package struct CacheRequest: Sendable {
    package let method: String
    package let address: String
    package let fields: [(name: String, value: String)]
    package let policy: CachePolicy
    package let partition: String
    package let hasBody: Bool

    /// - Parameters:
    ///   - method: The method, which is case-sensitive.
    ///   - address: The absolute URL of the hop, in any spelling, with or without a fragment.
    ///   - fields: All fields that are sent, in order, including those that the engine adds. Responses can vary by any
    ///     of them.
    ///   - policy: The permitted use of stored responses.
    ///   - partition: An opaque identifier. Responses stored in one partition are never served to another.
    ///   - hasBody: Whether the request has a body. If so, its response is neither stored nor served from the cache.
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

/// The permitted use of stored responses for a request: the cases of `URLRequest.CachePolicy`.
package enum CachePolicy: Sendable, Hashable {
    /// Uses stored responses as the HTTP caching rules allow.
    case protocolPolicy
    /// Always sends the request to the server.
    case reload
    /// Uses a stored response only after the server has validated it.
    case reloadRevalidating
    /// Uses a stored response of any age, or the network if none is stored.
    case storedElseLoad
    /// Uses a stored response of any age, and fails if none is stored.
    case storedOnly
}

/// The status code and fields of a response, as strings that preserve all bytes.
package struct CachedHead: Sendable {
    package let statusCode: Int
    package let fields: [(name: String, value: String)]
    /// The `Age` of a stored response, in seconds. It is separate from `fields`, which therefore need not be copied for
    /// each request.
    package let age: Int64?

    package init(statusCode: Int, fields: [(name: String, value: String)], age: Int64? = nil) {
        self.statusCode = statusCode
        self.fields = fields
        self.age = age
    }

    /// The fields, including `Age`.
    package var allFields: [(name: String, value: String)] { age.map { fields + [("Age", String($0))] } ?? fields }
}

/// The result of a lookup.
package enum CacheAnswer: Sendable {
    /// No stored response matches. The request is sent unchanged.
    case miss
    /// A stored response can be served. If `revalidates` is set, the cache requests a new response in the background.
    case hit(any ServableResponse, revalidates: Bool)
    /// A stored response must be validated. The request is sent with these fields added, byte for byte.
    case validate(fields: [(name: String, value: [UInt8])])
    /// The request must not be sent, and no stored response can be served.
    case unavailable(CacheUnavailable)
}

/// The reason no stored response is available for a request that must not be sent.
package enum CacheUnavailable: Sendable, Hashable {
    /// No stored response matches the request.
    case notStored
    /// The request allows only stored responses (`only-if-cached`), and the stored response is too old.
    case stale
}

/// The action to take for a response from the network.
package enum CacheReaction: Sendable {
    /// Deliver the response without storing it.
    case pass
    /// Deliver the response, and pass its body to the writer.
    case store(any ResponseCacheWriter)
    /// Deliver a stored response instead.
    case serveStored(any ServableResponse)
}

/// The reason a stored response was served (RFC 9111, section 4).
package enum StoredUse: String, Sendable, Hashable {
    /// The response was fresh.
    case fresh
    /// The server validated the response.
    case validated
    /// The response was stale, but within the request's `max-stale`.
    case maxStale
    /// The response was stale, and the cache requests a new one in the background (RFC 5861, section 3).
    case staleWhileRevalidate
    /// The response was stale, but the server was unreachable or returned an error (RFC 5861, section 4).
    case staleIfError
    /// The request accepts stored responses of any age.
    case ignoringAge
}
