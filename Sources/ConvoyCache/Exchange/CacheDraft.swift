import ConvoySupport

/// A response that is being stored, without its body.
struct CacheDraft: Sendable {
    let address: String
    let partition: String
    let vary: VaryKey
    var head: CachedHead
    let requested: CacheTime
    let received: CacheTime
    /// When it was requested, in the storage's count of invalidations.
    let generation: UInt64
    /// Of the body, if the head tells.
    let expectedLength: Int?
    var userInfo: [String: String] = [:]

    func record(id: Int64, length: Int, boot: Int64) -> CacheRecord {
        CacheRecord(
            id: id, address: address, partition: partition, vary: vary, head: head, requested: requested,
            received: received, boot: boot, length: length, userInfo: userInfo)
    }

    /// The `Content-Length` of a response; nil for none, and for one that is contradictory, or has no meaning beside a
    /// `Transfer-Encoding` (RFC 9112, section 6.3).
    static func length(_ fields: Fields) -> Int? {
        let values = fields.members("content-length")
        guard let first = values.first, values.allSatisfy({ $0 == first }), !fields.contains("transfer-encoding")
        else { return nil }
        return DeltaSeconds.parse(first.utf8).map { Int($0) }
    }
}
