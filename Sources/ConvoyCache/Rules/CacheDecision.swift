import ConvoySupport
import Foundation

/// The form in which a stored response answers a request.
enum ServedForm: Sendable, Hashable {
    case whole
    /// The head only, for HEAD.
    case head
    /// A 206 with the given range of bytes.
    case part(Range<Int>)
    /// A 304, because the client already has the response.
    case notModified
}

/// The decision about a request, given its stored response (RFC 9111, section 4).
enum CacheDecision: Sendable {
    /// The request is sent unchanged. The stored response may be served after a failure.
    case miss
    case serve(ServedForm, StoredUse, revalidates: Bool)
    case validate
    case unavailable(CacheUnavailable)

    /// - Parameter record: The most recent stored response that matches the request.
    init(_ request: RequestFacts, _ record: CacheRecord?, now: CacheTime, boot: Int64) {
        let isOffline = request.policy == .storedOnly || request.directives.onlyIfCached
        guard request.mayBeAnswered else {
            self = request.policy == .storedOnly ? .unavailable(.notStored) : .miss
            return
        }
        guard let record, request.policy != .reload, !request.directives.noStore else {
            self = isOffline ? .unavailable(.notStored) : .miss
            return
        }
        if request.policy == .storedElseLoad || request.policy == .storedOnly {
            let isFresh = record.freshness(at: now, boot: boot).isFresh
            if let form = ServedForm(request, record) {
                self = .serve(form, isFresh ? .fresh : .ignoringAge, revalidates: false)
            } else {
                self = isOffline ? .unavailable(.notStored) : .miss
            }
            return
        }
        guard let use = CacheDecision.use(request, record, now, boot) else {
            self = isOffline ? .unavailable(.stale) : CacheDecision.revalidation(request, record)
            return
        }
        guard let form = ServedForm(request, record) else {
            self = isOffline ? .unavailable(.notStored) : .miss
            return
        }
        let revalidates = use == .staleWhileRevalidate && record.claimsRevalidation(at: now)
        self = .serve(form, use, revalidates: revalidates)
    }

    /// Returns the reason why the response may be served without contacting the origin; nil if it may not be.
    private static func use(
        _ request: RequestFacts, _ record: CacheRecord, _ now: CacheTime, _ boot: Int64
    ) -> StoredUse? {
        let wishes = request.directives
        let directives = record.facts.directives
        guard !wishes.noCache, !directives.noCache else { return nil }
        let freshness = record.freshness(at: now, boot: boot)
        // A reload does not revalidate an immutable response while it is fresh (RFC 8246, section 2).
        if request.policy == .reloadRevalidating, !(directives.isImmutable && freshness.isFresh) { return nil }
        if let maxAge = wishes.maxAge, freshness.age >= maxAge * 1000 + (maxAge > 0 ? 1000 : 0) {
            // `max-stale` applies to the lifetime given by the origin, not to the `max-age` of the request.
            return nil
        }
        if let minFresh = wishes.minFresh, freshness.lifetime - freshness.age < minFresh * 1000 { return nil }
        if freshness.isFresh { return .fresh }
        // The origin's `must-revalidate` overrides every permission to serve the response stale (section 4.2.4).
        guard !directives.mustRevalidate else { return nil }
        if let maxStale = wishes.maxStale, freshness.staleness <= maxStale * 1000 { return .maxStale }
        if let window = directives.staleWhileRevalidate, !wishes.wantsFreshness,
            freshness.staleness <= window * 1000, request.method == .get, !request.isConditional, request.range == nil
        {
            return .staleWhileRevalidate
        }
        return nil
    }

    /// Returns `.validate`, or `.miss` if the request must be sent unchanged. The response to a request with its own
    /// conditions or range is for the client, and does not show whether the stored response is still valid. The
    /// response to a HEAD request shows this without a condition.
    private static func revalidation(_ request: RequestFacts, _ record: CacheRecord) -> CacheDecision {
        guard request.method == .get, !request.isConditional, request.range == nil, record.facts.hasValidator
        else { return .miss }
        return .validate
    }

    /// Returns whether a stale response may be served after a failure (RFC 5861, section 4).
    static func mayStandIn(
        _ record: CacheRecord, for request: RequestFacts, now: CacheTime, boot: Int64
    ) -> Bool {
        let directives = record.facts.directives
        guard request.policy != .reload, !directives.mustRevalidate, !directives.noCache, !request.directives.noCache,
            request.mayBeAnswered,
            let window = [directives.staleIfError, request.directives.staleIfError].compactMap(\.self).max()
        else { return false }
        return record.freshness(at: now, boot: boot).staleness <= window * 1000
    }
}

extension ServedForm {
    /// Determines how a stored response answers a request with conditions or a range (RFC 9110, section 13.2.2; RFC
    /// 9111, section 4.3.2); nil if only the origin can answer it.
    init?(_ request: RequestFacts, _ record: CacheRecord) {
        let isSuccess = record.head.statusCode == 200
        if isSuccess, ServedForm.isUnchanged(request, record) {
            self = .notModified
        } else if request.method == .head {
            self = .head
        } else if let range = request.range, isSuccess, ServedForm.allowsRange(request, record) {
            guard let part = ByteRange.resolve(range, length: record.length) else { return nil }
            self = .part(part)
        } else {
            self = .whole
        }
    }

    private static func isUnchanged(_ request: RequestFacts, _ record: CacheRecord) -> Bool {
        if let list = request.ifNoneMatch {
            guard let etag = record.facts.etag else { return list == "*" }
            return EntityTag.list(list, contains: etag)
        }
        guard let since = request.ifModifiedSince.flatMap({ HTTPDate.parse($0) }) else { return false }
        return (record.facts.lastModified.flatMap { HTTPDate.parse($0) } ?? record.facts.date) <= since
    }

    private static func allowsRange(_ request: RequestFacts, _ record: CacheRecord) -> Bool {
        guard let condition = request.ifRange else { return true }
        if condition.utf8.first == UInt8(ascii: "\"") || !EntityTag.isStrong(condition) {
            return record.facts.etag.map { EntityTag.matchesStrongly($0, condition) } ?? false
        }
        // A date must match exactly, and counts only as a strong validator: at least a minute older than the response
        // (RFC 9110, section 8.8.2.2).
        guard let changed = record.facts.lastModified, ExactText.equal(changed, condition),
            let time = HTTPDate.parse(changed)
        else { return false }
        return record.facts.date - time >= 60
    }
}

/// A moment on two clocks, in milliseconds.
struct CacheTime: Sendable, Hashable {
    /// The time since 1970, which jumps when the system clock is set.
    var wall: Int64
    /// The time since boot, including sleep. Monotonic, but meaningless after the next boot.
    var up: Int64
}

/// The clock of a cache, which tests replace.
struct CacheClock: Sendable {
    var now: @Sendable () -> CacheTime
    /// The identifier of the boot from which `up` is counted.
    var boot: Int64

    init(boot: Int64, now: @escaping @Sendable () -> CacheTime) {
        self.boot = boot
        self.now = now
    }

    static let system = CacheClock(boot: SystemClock.boot) {
        CacheTime(wall: SystemClock.wall / 1000, up: SystemClock.up / 1000)
    }
}

/// A parser for numbers of seconds in fields (RFC 9111, section 1.2.2).
enum DeltaSeconds {
    /// The maximum value, which replaces larger numbers: far more than any age, and small enough for sums.
    static let limit: Int64 = 1 << 40

    /// Returns the number that the digits denote; nil for any other string.
    static func parse(_ text: some Collection<UInt8>) -> Int64? {
        guard !text.isEmpty else { return nil }
        var value: Int64 = 0
        for byte in text {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            value = min(value * 10 + Int64(byte - UInt8(ascii: "0")), limit)
        }
        return value
    }
}

/// The age and the freshness lifetime of a stored response, in milliseconds.
struct Freshness: Sendable, Hashable {
    let age: Int64
    let lifetime: Int64
    /// Whether the age is unknown, because the clock was set back.
    let isUnknown: Bool

    /// - Parameters:
    ///   - received: The time at which the response was received or last confirmed; `up` counts only if `isOfThisRun`.
    ///   - isOfThisRun: Whether the response arrived since the last boot.
    init(_ facts: ResponseFacts, received: CacheTime, isOfThisRun: Bool, now: CacheTime) {
        let byWall = now.wall - received.wall
        // Use the later of the two clocks, so that setting the wall clock back does not make a response younger.
        let resident = isOfThisRun ? max(byWall, now.up - received.up) : byWall
        age = facts.initialAge * 1000 + max(0, resident)
        // An arrival in the future means that the clock is wrong and the age unknown: the response is stale.
        isUnknown = resident < 0
        lifetime = isUnknown ? 0 : facts.lifetime * 1000
    }

    var isFresh: Bool { lifetime > age }
    /// The time for which the response has been stale; the maximum if the age is unknown.
    var staleness: Int64 { isUnknown ? DeltaSeconds.limit * 1000 : max(0, age - lifetime) }
}
