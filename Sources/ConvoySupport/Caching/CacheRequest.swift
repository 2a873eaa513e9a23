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
