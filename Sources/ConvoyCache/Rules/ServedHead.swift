import ConvoySupport

/// Makes the head that is served of a stored response.
enum ServedHead {
    static func make(
        _ record: CacheRecord, _ form: ServedForm, _ use: StoredUse, now: CacheTime, boot: Int64
    ) -> CachedHead {
        let stored = record.head.fields
        let hidden = use == .validated ? [] : record.facts.directives.unconfirmedFields
        let statesAge = stored.contains("age")
        // A response that the origin has just confirmed has no age but the one that it states (RFC 9111, section 5.1).
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

    /// Whether a field is another one in this form, or has no meaning there.
    private static func isReplaced(_ name: String, _ form: ServedForm) -> Bool {
        switch form {
        case .whole, .head: false
        case .part: FieldNames.matches(name, "content-length") || FieldNames.matches(name, "content-range")
        case .notModified: FieldNames.matches(name, "content-length") || FieldNames.matches(name, "content-encoding")
        }
    }

    /// The fields that ask the origin whether a stored response is still valid (section 4.3.1).
    static func validation(of record: CacheRecord, for request: RequestFacts) -> [(name: String, value: [UInt8])] {
        var fields: [(name: String, value: [UInt8])] = []
        for (name, value) in [("If-None-Match", record.facts.etag), ("If-Modified-Since", record.facts.lastModified)] {
            if let bytes = value.flatMap({ EchoedValue(latin1: $0)?.bytes }) { fields.append((name, bytes)) }
        }
        // Caches on the way are to ask as well.
        if request.policy == .reloadRevalidating, !request.fields.contains("cache-control") {
            fields.append(("Cache-Control", Array("max-age=0".utf8)))
        }
        return fields
    }
}
