/// A stored response, and where its body is.
struct CacheEntry: Sendable {
    var record: CacheRecord
    var body: StoredBody

    /// The bytes that it takes in memory. An estimate.
    var cost: Int { record.cost + (body.bytes?.count ?? 0) }
}
