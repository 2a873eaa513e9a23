import ConvoySupport

/// A stored response that may be served. While the object lives, its body cannot be taken away: eviction, replacement
/// and removal, by another process too, only end that others find it.
package final class StoredResponse: ServableResponse {
    /// The head, with `Age` (RFC 9111, section 5.1). The fields of a part or of a 304 are already those of one.
    package let head: CachedHead
    /// Why it may be served.
    package let use: StoredUse
    /// What a user's handler has added to it.
    package let userInfo: [String: String]
    private let body: StoredBody
    private let range: Range<Int>
    private let discard: @Sendable () -> Void

    /// - Parameters:
    ///   - range: which bytes of the body are served.
    ///   - discard: removes the entry, when its body turns out to be damaged.
    init(
        head: CachedHead, use: StoredUse, userInfo: [String: String], body: StoredBody, range: Range<Int>,
        discard: @escaping @Sendable () -> Void
    ) {
        self.head = head
        self.use = use
        self.userInfo = userInfo
        self.body = body
        self.range = range
        self.discard = discard
    }

    /// How many bytes the body has; 0 for the answer to HEAD and for a 304.
    package var length: Int { range.count }

    /// The whole body, if it is in memory.
    package var bytes: [UInt8]? {
        guard !range.isEmpty else { return [] }
        return body.bytes.map { $0.count == range.count ? $0 : Array($0[range]) }
    }

    /// Reads a part of the body: on the cache's queue for files, or at once if the body is in memory.
    ///
    /// - Parameters:
    ///   - offset: of the first byte.
    ///   - count: how many bytes at most; fewer arrive at the end of the body only.
    ///   - then: is called once. After a failure the entry has been removed.
    package func read(
        at offset: Int, count: Int, _ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void
    ) {
        let start = min(max(offset, 0), length)
        let part = range.lowerBound + start..<range.lowerBound + start + min(max(count, 0), length - start)
        guard !part.isEmpty else { return then(.success([])) }
        switch body {
        case .memory(let bytes): then(.success(Array(bytes[part])))
        case .open(let file):
            file.read(part) { [discard] result in
                if case .failure = result { discard() }
                then(result)
            }
        case .row, .file: then(.failure(CacheError.unreadable(reason: "The body was not loaded.")))
        }
    }
}
