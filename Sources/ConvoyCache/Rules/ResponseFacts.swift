import ConvoySupport

/// What of a stored response matters later, found once when it is stored.
struct ResponseFacts: Sendable {
    let directives: ResponseDirectives
    /// When it was made, in seconds since 1970: its `Date`, or when it arrived.
    let date: Int64
    /// How old it was when it arrived, in seconds (RFC 9111, section 4.2.3).
    let initialAge: Int64
    /// How long it is fresh, in seconds (section 4.2.1).
    let lifetime: Int64
    let isHeuristic: Bool
    /// The validators, as far as they can be sent back.
    let etag: String?
    let lastModified: String?

    /// - Parameters:
    ///   - requested: when the request was sent.
    ///   - received: when the head had arrived.
    init(_ head: CachedHead, requested: CacheTime, received: CacheTime) {
        let fields = head.fields
        directives = ResponseDirectives(fields)
        let arrival = received.wall / 1000
        let stated = fields.first("date").flatMap { HTTPDate.parse($0, now: arrival) }
        date = stated ?? arrival
        let delay = max(0, received.up - requested.up) / 1000
        initialAge = max(max(0, arrival - date), ResponseFacts.age(fields) + delay)
        etag = fields.first("etag").flatMap { EchoedValue(latin1: $0) == nil ? nil : $0 }
        lastModified = fields.first("last-modified").flatMap { EchoedValue(latin1: $0) == nil ? nil : $0 }
        let expires = fields.all("expires")
        if directives.hasInvalidMaxAge {
            (lifetime, isHeuristic) = (0, false)
        } else if let maxAge = directives.maxAge {
            (lifetime, isHeuristic) = (maxAge, false)
        } else if let first = expires.first {
            // Several are invalid, unless they are the same.
            let time = expires.allSatisfy { $0 == first } ? StrictDate.parse(first, now: arrival) : nil
            (lifetime, isHeuristic) = (max(0, (time ?? date) - date), false)
        } else {
            isHeuristic = true
            lifetime = ResponseFacts.heuristicLifetime(head, directives, lastModified, date: date, now: arrival)
        }
    }

    /// Whether it could be validated.
    var hasValidator: Bool { etag != nil || lastModified != nil }

    /// The number in `Age`: of several the first; what is no number counts as none (section 5.1).
    static func age(_ fields: Fields) -> Int64 {
        guard let value = fields.first("age") else { return 0 }
        let first = value.utf8.prefix { $0 != UInt8(ascii: ",") }
        return DeltaSeconds.parse(HTTPSyntax.trimmed(Substring(first)).utf8) ?? 0
    }

    /// A day: who says nothing about freshness does not expect more.
    static let longestHeuristicLifetime: Int64 = 86400

    /// A tenth of the time since the last change (section 4.2.2).
    private static func heuristicLifetime(
        _ head: CachedHead, _ directives: ResponseDirectives, _ lastModified: String?, date: Int64, now: Int64
    ) -> Int64 {
        guard StatusRules.isHeuristicallyCacheable(head.statusCode) || directives.isPublic,
            let changed = lastModified.flatMap({ HTTPDate.parse($0, now: now) }), changed < date
        else { return 0 }
        // What HTTP/1.0 said is obeyed where nothing else is said (section 5.4).
        if head.fields.contains("pragma"), !head.fields.contains("cache-control"),
            head.fields.members("pragma").contains(where: { FieldNames.matches(String($0), "no-cache") })
        {
            return 0
        }
        return min((date - changed) / 10, longestHeuristicLifetime)
    }
}
