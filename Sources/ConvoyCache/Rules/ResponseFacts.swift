import ConvoySupport

/// The properties of a stored response that decide about its use, computed once when it is stored.
struct ResponseFacts: Sendable {
    let directives: ResponseDirectives
    /// When it was generated, in seconds since 1970: its `Date`, or when it arrived.
    let date: Int64
    /// Its age on arrival, in seconds (RFC 9111, section 4.2.3).
    let initialAge: Int64
    /// Its freshness lifetime, in seconds (section 4.2.1).
    let lifetime: Int64
    let isHeuristic: Bool
    /// The validators, if valid enough to be sent back.
    let etag: String?
    let lastModified: String?

    /// - Parameters:
    ///   - requested: When the request was sent.
    ///   - received: When the head had arrived.
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
            // Several are invalid, unless they are equal.
            let time = expires.allSatisfy { $0 == first } ? StrictDate.parse(first, now: arrival) : nil
            (lifetime, isHeuristic) = (max(0, (time ?? date) - date), false)
        } else {
            isHeuristic = true
            lifetime = ResponseFacts.heuristicLifetime(head, directives, lastModified, date: date, now: arrival)
        }
    }

    /// Whether it can be validated.
    var hasValidator: Bool { etag != nil || lastModified != nil }

    /// The number in the first `Age` field; 0 for an invalid one (section 5.1).
    static func age(_ fields: Fields) -> Int64 {
        guard let value = fields.first("age") else { return 0 }
        let first = value.utf8.prefix { $0 != UInt8(ascii: ",") }
        return DeltaSeconds.parse(HTTPSyntax.trimmed(Substring(first)).utf8) ?? 0
    }

    /// A day, in seconds: the limit for responses without explicit freshness.
    static let longestHeuristicLifetime: Int64 = 86400

    /// The heuristic lifetime: a tenth of the time since the last change (section 4.2.2).
    private static func heuristicLifetime(
        _ head: CachedHead, _ directives: ResponseDirectives, _ lastModified: String?, date: Int64, now: Int64
    ) -> Int64 {
        guard StatusRules.isHeuristicallyCacheable(head.statusCode) || directives.isPublic,
            let changed = lastModified.flatMap({ HTTPDate.parse($0, now: now) }), changed < date
        else { return 0 }
        // `Pragma` of HTTP/1.0 counts if there is no `Cache-Control` (section 5.4).
        if head.fields.contains("pragma"), !head.fields.contains("cache-control"),
            head.fields.members("pragma").contains(where: { FieldNames.matches(String($0), "no-cache") })
        {
            return 0
        }
        return min((date - changed) / 10, longestHeuristicLifetime)
    }
}

/// Parses dates in `Expires`, which must have exactly one of the three forms (RFC 9110, section 5.6.7), in any case of
/// letters. An invalid date makes a response stale (RFC 9111, section 5.3): guessing too late a time would serve a
/// stale response.
enum StrictDate {
    /// The seconds since 1970; nil for any other text.
    static func parse(_ text: String, now: Int64) -> Int64? {
        hasForm(Array(text.utf8)) ? HTTPDate.parse(text, now: now) : nil
    }

    private static func hasForm(_ text: [UInt8]) -> Bool {
        if text.count == 29 { return fits(text, "aaa, 00 aaa 0000 00:00:00 GMT") }
        if text.count == 24 { return fits(text, "aaa aaa _0 00:00:00 0000") }
        guard let comma = text.firstIndex(of: UInt8(ascii: ",")), (6...9).contains(comma) else { return false }
        return text[..<comma].allSatisfy(isLetter) && fits(Array(text[comma...]), ", 00-aaa-00 00:00:00 GMT")
    }

    /// - Parameter form: `a` stands for a letter, `0` for a digit, `_` for a digit or a space, all else for itself.
    private static func fits(_ text: [UInt8], _ form: StaticString) -> Bool {
        guard text.count == form.utf8CodeUnitCount else { return false }
        return text.indices.allSatisfy { index in
            let byte = text[index]
            return switch form.utf8Start[index] {
            case UInt8(ascii: "a"): isLetter(byte)
            case UInt8(ascii: "0"): ASCII.isDigit(byte)
            case UInt8(ascii: "_"): ASCII.isDigit(byte) || byte == UInt8(ascii: " ")
            case let expected: ASCII.lowercased(byte) == ASCII.lowercased(expected)
            }
        }
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(ASCII.lowercased(byte))
    }
}
