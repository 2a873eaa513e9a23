import ConvoySupport
import Foundation

/// The rules for storing responses, and for their effects on stored ones.
enum StorageRules {
    /// Returns whether the response to a request may and should be stored (RFC 9111, section 3).
    ///
    /// Only responses to GET are stored, and only if they can be used again: fresh for a time, or with a validator.
    static func isStorable(_ request: RequestFacts, _ head: CachedHead, _ facts: ResponseFacts) -> Bool {
        let status = head.statusCode
        guard request.method == .get, !request.hasBody, !request.directives.noStore, StatusRules.isStorable(status)
        else { return false }
        let directives = facts.directives
        if directives.mustUnderstand {
            // `must-understand` overrides `no-store` if the status is understood (section 5.2.2.3).
            guard StatusRules.isUnderstood(status) else { return false }
        } else if directives.noStore {
            return false
        }
        let isExplicit =
            directives.maxAge != nil || directives.isPublic || directives.isPrivate || !facts.isHeuristic
        guard isExplicit || StatusRules.isHeuristicallyCacheable(status) else { return false }
        let staysUseful =
            facts.lifetime > 0 || (directives.staleWhileRevalidate ?? 0) > 0 || (directives.staleIfError ?? 0) > 0
        return facts.hasValidator || (staysUseful && !directives.noCache)
    }

    /// Returns whether a 304 confirms a stored response (section 4.3.4): a strong validator must be the stored one. A
    /// 304 without a validator confirms the response that the cache has validated.
    static func confirms(_ head: CachedHead, _ record: CacheRecord) -> Bool {
        guard let etag = head.fields.first("etag"), EntityTag.isStrong(etag), let stored = record.facts.etag
        else { return true }
        return EntityTag.matchesWeakly(etag, stored)
    }

    /// Returns whether a 304 to the client's own condition, or the head of a response to HEAD, describes a stored
    /// response: all of its validators, and its length, must be the stored ones (section 4.3.5).
    static func describes(_ head: CachedHead, _ record: CacheRecord, needsValidator: Bool) -> Bool {
        let etag = head.fields.first("etag")
        let changed = head.fields.first("last-modified")
        if needsValidator, etag == nil, changed == nil { return false }
        if let etag, !ExactText.equal(etag, record.facts.etag) { return false }
        if let changed, !ExactText.equal(changed, record.facts.lastModified) { return false }
        guard head.statusCode == 200, let length = head.fields.first("content-length") else { return true }
        return length == record.head.fields.first("content-length") ?? String(record.length)
    }

    /// Returns the addresses whose stored responses are invalidated by a response (section 4.4): after a successful
    /// unsafe request, its own address, and those of the same origin in `Location` and `Content-Location`.
    static func invalidated(by head: CachedHead, to request: RequestFacts) -> [String] {
        guard request.method == .unsafe, (200...399).contains(head.statusCode) else { return [] }
        let own = request.address
        var addresses = [own]
        // Use only the first field of each name, so that a server cannot cause thousands of lookups.
        for value in [head.fields.first("location"), head.fields.first("content-location")].compactMap(\.self) {
            guard let base = URL(string: own), let url = URL(string: value, relativeTo: base) else { continue }
            let address = CacheAddress.normalized(url.absoluteString)
            if Target.isSame(url, base), !addresses.contains(address) {
                addresses.append(address)
            }
        }
        return addresses
    }
}

/// The effects of status codes on a cache.
enum StatusRules {
    /// Returns whether a response with the given status is fresh for a time without explicit freshness (RFC 9110,
    /// section 15.1). The list omits 206, because partial responses are not stored here.
    static func isHeuristicallyCacheable(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501: true
        default: false
        }
    }

    /// Returns whether this cache understands a status, as `must-understand` demands (RFC 9111, section 5.2.2.3).
    static func isUnderstood(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 414, 500, 501, 502, 503, 504: true
        default: false
        }
    }

    /// Returns whether a status may be stored at all. A 206 would have to be combined with other parts; a 304 describes
    /// another response. 412 and 416 refer to a condition or a range that the next request may not have, 401 to
    /// credentials that may be valid the next time or to a used nonce, and 407 comes from a proxy. The statuses of RFC
    /// 6585 must not be stored.
    static func isStorable(_ status: Int) -> Bool {
        switch status {
        case 206, 304, 401, 407, 412, 416, 428, 429, 431, 511: false
        default: (200...599).contains(status)
        }
    }

    /// Returns whether a response with the given status, stored or not, makes an earlier one obsolete.
    static func replaces(_ status: Int) -> Bool {
        [200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410].contains(status)
    }

    /// Returns whether the status is a failure of the origin or a gateway after which a stale response may be served
    /// (RFC 5861, section 4).
    static func isFailure(_ status: Int) -> Bool { [500, 502, 503, 504].contains(status) }
}

/// The selection of the fields of a response that are stored, updated and served.
///
/// `Set-Cookie` is stored and served like any other field (RFC 9111). Cookie stores take cookies only from responses of
/// the network, so that an old response does not restore an old cookie. `Clear-Site-Data` is stored and served, without
/// effect.
enum StoredFields {
    /// Returns the fields of a response to store: all but those for the connection or a proxy (RFC 9111, section 3.1).
    /// A response without a `Date` gets one (RFC 9110, section 6.6.1).
    static func stored(_ fields: Fields, arrival: Int64) -> Fields {
        // Use a set, because a hostile server can name and send thousands of fields.
        let named = Set(fields.members("connection").map { FieldNames.lowercased($0) })
        var stored = fields.filter { field in
            !isOfConnection(field.name)
                && (named.isEmpty || !named.contains(FieldNames.lowercased(field.name)))
        }
        if !stored.contains("date") { stored.append(("Date", HTTPDate.string(arrival))) }
        return stored
    }

    /// Returns the stored fields, updated with those of a 304 or of a response to HEAD (section 3.2).
    static func updated(_ old: Fields, by new: Fields, arrival: Int64) -> Fields {
        let update = stored(new, arrival: arrival).filter { !describesBody($0.name) }
        let names = Set(update.map { FieldNames.lowercased($0.name) })
        // An `Age` that the origin no longer sends belongs to the earlier response.
        let kept = old.filter { field in
            !FieldNames.matches(field.name, "age") && !names.contains(FieldNames.lowercased(field.name))
        }
        return kept + update
    }

    private static func isOfConnection(_ name: String) -> Bool {
        switch name.utf8.count {
        case 2: FieldNames.matches(name, "te")
        case 7: FieldNames.matches(name, "trailer") || FieldNames.matches(name, "upgrade")
        case 10: FieldNames.matches(name, "connection") || FieldNames.matches(name, "keep-alive")
        case 16: FieldNames.matches(name, "proxy-connection")
        case 17: FieldNames.matches(name, "transfer-encoding")
        case 18: FieldNames.matches(name, "proxy-authenticate")
        case 19: FieldNames.matches(name, "proxy-authorization")
        case 25: FieldNames.matches(name, "proxy-authentication-info")
        default: false
        }
    }

    /// Returns whether a field describes the stored bytes, so that no other response can change it.
    private static func describesBody(_ name: String) -> Bool {
        FieldNames.matches(name, "content-length") || FieldNames.matches(name, "content-encoding")
            || FieldNames.matches(name, "content-range")
    }
}

/// The head to serve from a stored response.
enum ServedHead {
    static func make(
        _ record: CacheRecord, _ form: ServedForm, _ use: StoredUse, now: CacheTime, boot: Int64
    ) -> CachedHead {
        let stored = record.head.fields
        let hidden = use == .validated ? [] : record.facts.directives.unconfirmedFields
        let statesAge = stored.contains("age")
        // A response that the origin has just confirmed has only the age that it states (RFC 9111, section 5.1).
        let age = use != .validated || statesAge ? record.freshness(at: now, boot: boot).age / 1000 : nil
        if case .whole = form, !statesAge, hidden.isEmpty {
            return CachedHead(statusCode: record.head.statusCode, fields: stored, age: age)
        }
        var fields = stored.filter { field in
            !FieldNames.matches(field.name, "age") && !isReplaced(field.name, form)
                && !hidden.contains { HTTPSyntax.isSameField($0, field.name) }
        }
        switch form {
        case .whole, .head: return CachedHead(statusCode: record.head.statusCode, fields: fields, age: age)
        case .notModified: return CachedHead(statusCode: 304, fields: fields, age: age)
        case .part(let range):
            fields.append(("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(record.length)"))
            fields.append(("Content-Length", String(range.count)))
            return CachedHead(statusCode: 206, fields: fields, age: age)
        }
    }

    /// Returns whether a field is replaced or omitted in this form.
    private static func isReplaced(_ name: String, _ form: ServedForm) -> Bool {
        switch form {
        case .whole, .head: false
        case .part: FieldNames.matches(name, "content-length") || FieldNames.matches(name, "content-range")
        case .notModified: FieldNames.matches(name, "content-length") || FieldNames.matches(name, "content-encoding")
        }
    }

    /// Returns the request fields that validate a stored response (section 4.3.1).
    static func validation(of record: CacheRecord, for request: RequestFacts) -> [(name: String, value: [UInt8])] {
        var fields: [(name: String, value: [UInt8])] = []
        for (name, value) in [("If-None-Match", record.facts.etag), ("If-Modified-Since", record.facts.lastModified)] {
            if let bytes = value.flatMap({ SafeFieldValue(latin1: $0)?.bytes }) { fields.append((name, bytes)) }
        }
        // Make intermediate caches revalidate as well.
        if request.policy == .reloadRevalidating, !request.fields.contains("cache-control") {
            fields.append(("Cache-Control", Array("max-age=0".utf8)))
        }
        return fields
    }
}
