/// A request as the cache sees it: one hop, with all fields that are sent.
package struct CacheRequest: Sendable {
    package let method: String
    package let address: String
    package let fields: [(name: String, value: String)]
    package let policy: CachePolicy
    package let partition: String
    package let hasBody: Bool

    /// - Parameters:
    ///   - method: case-sensitive, as methods are.
    ///   - address: the absolute URL of the hop. A fragment is dropped, the scheme, the host and a default port are
    ///     normalised.
    ///   - fields: all fields that are sent, in their order, including those that the engine adds; responses can vary
    ///     by each of them.
    ///   - policy: how stored responses are to be used.
    ///   - partition: opaque. What was stored in one partition is never served to another. Who sends credentials puts
    ///     what tells them apart here, by a digest rather than in clear, since it is written to the disk.
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
