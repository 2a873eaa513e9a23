import ConvoySupport

/// The form in which a stored response answers a request.
enum ServedForm: Sendable, Hashable {
    case whole
    /// The head only, for HEAD.
    case head
    /// 206 with these bytes.
    case part(Range<Int>)
    /// 304, because the client has the response already.
    case notModified
}

/// What to do with a request, given its stored response (RFC 9111, section 4).
enum CacheDecision: Sendable {
    /// Send it unchanged. The stored response may be served after a failure.
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

    /// Why the response may be served without contacting the origin; nil if it may not.
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
            // `max-stale` applies to the lifetime that the origin gave, not to this one.
            return nil
        }
        if let minFresh = wishes.minFresh, freshness.lifetime - freshness.age < minFresh * 1000 { return nil }
        if freshness.isFresh { return .fresh }
        // The origin's `must-revalidate` overrides every permission to serve it stale (section 4.2.4).
        guard !directives.mustRevalidate else { return nil }
        if let maxStale = wishes.maxStale, freshness.staleness <= maxStale * 1000 { return .maxStale }
        if let window = directives.staleWhileRevalidate, !wishes.wantsFreshness,
            freshness.staleness <= window * 1000, request.method == .get, !request.isConditional, request.range == nil
        {
            return .staleWhileRevalidate
        }
        return nil
    }

    /// A request with its own conditions or range goes to the origin unchanged: its response is for the client and does
    /// not show whether the stored response is still valid. A HEAD shows that without a condition.
    private static func revalidation(_ request: RequestFacts, _ record: CacheRecord) -> CacheDecision {
        guard request.method == .get, !request.isConditional, request.range == nil, record.facts.hasValidator
        else { return .miss }
        return .validate
    }

    /// Whether a stale response may be served after a failure (RFC 5861, section 4).
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
    /// How a stored response answers a request with conditions or a range (RFC 9110, section 13.2.2; RFC 9111, section
    /// 4.3.2); nil if only the origin can.
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
