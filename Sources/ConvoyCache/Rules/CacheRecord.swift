import ConvoySupport
import Synchronization

/// A stored response without its body: what decides whether, and how, it may be served. Immutable; a confirmed response
/// is a new record.
final class CacheRecord: Sendable {
    /// See `EntryNumber`; the name of its body's file.
    let id: Int64
    /// Normalised.
    let address: String
    let partition: String
    let vary: VaryKey
    /// What is stored of the head.
    let head: CachedHead
    /// When the request was sent that it answers, or that confirmed it.
    let requested: CacheTime
    /// When its head arrived.
    let received: CacheTime
    /// Which run of the system `up` belongs to.
    let boot: Int64
    /// Of the body, in bytes.
    let length: Int
    /// What a user's handler has added.
    let userInfo: [String: String]
    let facts: ResponseFacts
    /// When one request has been told to revalidate it in the background, in milliseconds of `up`.
    private let revalidation = Atomic<Int64>(.min)
    /// When its last use was noted, in milliseconds since 1970.
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

    /// Whether it must make room for another response to the same request.
    func isReplaced(by other: CacheRecord) -> Bool {
        ExactText.equal(partition, other.partition) && vary == other.vary
    }

    /// Whether it is to be kept although another response arrived later: two requests were under way at the same time,
    /// and this is the younger response. After one another the later response counts, whatever the origin's clock says.
    func isNewer(than other: CacheRecord) -> Bool {
        // By the clock that nobody sets. What arrived before the system was started is older in any case.
        guard other.boot == boot, other.requested.up < received.up else { return false }
        return (facts.date, received.up) > (other.facts.date, other.received.up)
    }

    /// A confirmed response whose fields have more bytes is not kept. As much as libcurl takes of one head.
    static let headLimit = 300 << 10

    /// How many bytes the names and values of its fields have.
    var headSize: Int { head.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } }

    /// The bytes that it takes, without its body. An estimate.
    var cost: Int {
        head.fields.reduce(256 + address.utf8.count + partition.utf8.count) {
            $0 + 48 + $1.name.utf8.count + $1.value.utf8.count
        }
    }

    /// Whether a use is to be noted. Once in ten minutes is enough to know what has not been used for longest, and
    /// writing it costs more than reading the response.
    func isUseDue(at now: CacheTime) -> Bool {
        let last = noted.load(ordering: .relaxed)
        guard now.wall - last > 600_000 || now.wall < last else { return false }
        noted.store(now.wall, ordering: .relaxed)
        return true
    }

    /// Whether the one who asks should revalidate it: true once in a while, so that of many requests one does.
    func claimsRevalidation(at now: CacheTime) -> Bool {
        let last = revalidation.load(ordering: .relaxed)
        guard last == .min || now.up - last > 10_000 || now.up < last else { return false }
        return revalidation.compareExchange(expected: last, desired: now.up, ordering: .relaxed).exchanged
    }
}

extension Sequence<CacheRecord> {
    /// Of several responses to a request the most recent one (RFC 9111, section 4).
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
