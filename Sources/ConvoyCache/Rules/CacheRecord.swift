import ConvoySupport
import Synchronization

/// The head and metadata of a stored response, which decide whether and how it may be served. Immutable; a confirmed
/// response is a new record.
final class CacheRecord: Sendable {
    /// The number of the response (see `EntryNumber`), which is also the name of the body's file.
    let id: Int64
    /// The normalized address.
    let address: String
    let partition: String
    let vary: VaryKey
    /// The stored head.
    let head: CachedHead
    /// The time at which the request that the response answers, or that confirmed the response, was sent.
    let requested: CacheTime
    /// The time at which the head arrived.
    let received: CacheTime
    /// The identifier of the boot from which `up` is counted.
    let boot: Int64
    /// The length of the body, in bytes.
    let length: Int
    /// The strings that a user's handler has added.
    let userInfo: [String: String]
    let facts: ResponseFacts
    /// The time at which a request last claimed the background revalidation, in milliseconds of `up`.
    private let revalidation = Atomic<Int64>(.min)
    /// The time at which the last use was recorded, in milliseconds since 1970.
    private let noted: Atomic<Int64>

    init(
        id: Int64, address: String, partition: String, vary: VaryKey, head: CachedHead, requested: CacheTime,
        received: CacheTime, boot: Int64, length: Int, userInfo: [String: String] = [:], used: Int64? = nil
    ) {
        noted = Atomic(used ?? received.wall)
        self.id = id
        self.address = address
        self.partition = partition
        self.vary = vary
        self.head = head
        self.requested = requested
        self.received = received
        self.boot = boot
        self.length = length
        self.userInfo = userInfo
        facts = ResponseFacts(head, requested: requested, received: received)
    }

    func freshness(at now: CacheTime, boot: Int64) -> Freshness {
        Freshness(facts, received: received, isOfThisRun: boot == self.boot, now: now)
    }

    func answers(_ request: RequestFacts) -> Bool {
        ExactText.equal(partition, request.partition)
            && vary.matches(request.fields, isLenient: request.isLenient, salt: request.salt)
    }

    /// Returns whether another response to the same request replaces this one.
    func isReplaced(by other: CacheRecord) -> Bool {
        ExactText.equal(partition, other.partition) && vary == other.vary
    }

    /// Returns whether this response must be kept although `other` arrived later: the two requests overlapped, and this
    /// response has the later `Date`. Of requests that did not overlap, the later response wins, regardless of the
    /// origin's clock.
    func isNewer(than other: CacheRecord) -> Bool {
        // Compare by the monotonic clock. A response from before the last boot is older in any case.
        guard other.boot == boot, other.requested.up < received.up else { return false }
        return (facts.date, received.up) > (other.facts.date, other.received.up)
    }

    /// The largest head of a confirmed response, in bytes: libcurl's limit for one head.
    static let headLimit = 300 << 10

    /// The size of the names and values of the fields, in bytes.
    var headSize: Int { head.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } }

    /// The estimated size in memory without the body, in bytes.
    var cost: Int {
        head.fields.reduce(256 + address.utf8.count + partition.utf8.count) {
            $0 + 48 + $1.name.utf8.count + $1.value.utf8.count
        }
    }

    /// Returns whether to record a use. Once in ten minutes is enough for eviction, and writing costs more than reading
    /// the response.
    func isUseDue(at now: CacheTime) -> Bool {
        let last = noted.load(ordering: .relaxed)
        guard now.wall - last > 600_000 || now.wall < last else { return false }
        noted.store(now.wall, ordering: .relaxed)
        return true
    }

    /// Claims the background revalidation. Returns true for only one caller, so that one of many requests revalidates.
    func claimsRevalidation(at now: CacheTime) -> Bool {
        let last = revalidation.load(ordering: .relaxed)
        guard last == .min || now.up - last > 10_000 || now.up < last else { return false }
        return revalidation.compareExchange(expected: last, desired: now.up, ordering: .relaxed).exchanged
    }
}

extension Sequence<CacheRecord> {
    /// Returns the most recent of several responses to a request (RFC 9111, section 4).
    func latest(answering request: RequestFacts) -> CacheRecord? {
        var latest: CacheRecord?
        for record in self where record.answers(request) {
            guard let other = latest else {
                latest = record
                continue
            }
            if (record.facts.date, record.received.wall) > (other.facts.date, other.received.wall) { latest = record }
        }
        return latest
    }
}
