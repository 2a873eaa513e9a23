import ConvoySupport

/// The properties of a request that matter to the cache, collected in one pass over its fields.
struct RequestFacts: Sendable {
    enum Method: Sendable, Hashable {
        case get, head
        /// A safe method whose responses this cache does not store.
        case otherSafe
        /// A method that may change the resource (RFC 9110, section 9.2.1), including unknown methods.
        case unsafe
    }

    let method: Method
    /// The normalized address.
    let address: String
    let fields: Fields
    let policy: CachePolicy
    let partition: String
    let hasBody: Bool
    let salt: any SaltSource
    private(set) var directives = RequestDirectives()
    private(set) var range: String?
    private(set) var ifRange: String?
    private(set) var ifNoneMatch: String?
    private(set) var ifModifiedSince: String?
    /// Whether the request has a condition that only the origin can evaluate: `If-Match` or `If-Unmodified-Since`.
    private(set) var hasPrecondition = false
    /// Whether missing fields match any stored value, because not all fields of the request are known.
    var isLenient = false

    init(_ request: CacheRequest, salt: any SaltSource) {
        self.salt = salt
        method =
            switch request.method {
            case "GET": .get
            case "HEAD": .head
            case "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY": .otherSafe
            default: .unsafe
            }
        address = CacheAddress.normalized(request.address)
        fields = request.fields
        policy = request.policy
        partition = request.partition
        hasBody = request.hasBody
        var hasCacheControl = false
        var pragma: String?
        for (name, value) in request.fields {
            switch name.utf8.count {
            case 13 where FieldNames.matches(name, "cache-control"):
                hasCacheControl = true
                directives.take(cacheControl: value)
            case 13 where FieldNames.matches(name, "if-none-match"):
                ifNoneMatch = ifNoneMatch.map { "\($0), \(value)" } ?? value
            case 17 where FieldNames.matches(name, "if-modified-since"): ifModifiedSince = value
            case 5 where FieldNames.matches(name, "range"): range = value
            case 8 where FieldNames.matches(name, "if-range"): ifRange = value
            case 8 where FieldNames.matches(name, "if-match"): hasPrecondition = true
            case 19 where FieldNames.matches(name, "if-unmodified-since"): hasPrecondition = true
            case 6 where FieldNames.matches(name, "pragma"): pragma = value
            default: break
            }
        }
        if let pragma, !hasCacheControl { directives.take(pragma: pragma) }
    }

    /// Whether the request could be answered with a stored response.
    var mayBeAnswered: Bool { (method == .get || method == .head) && !hasBody && !hasPrecondition }

    /// Whether the request has its own conditions, so that the cache must not add any.
    var isConditional: Bool { ifNoneMatch != nil || ifModifiedSince != nil || hasPrecondition }
}

/// A requested range of bytes (RFC 9110, section 14.1.2). The cache serves only single ranges.
enum ByteRange {
    /// Returns the part of a body that a `Range` field requests.
    ///
    /// - Returns: nil for several ranges, an unsatisfiable one, or an invalid field, which only the origin can answer.
    static func resolve(_ field: String, length: Int) -> Range<Int>? {
        let text = field.utf8
        guard let equals = text.firstIndex(of: UInt8(ascii: "=")),
            FieldNames.matches(String(field[..<equals]), "bytes")
        else { return nil }
        let range = HTTPSyntax.trimmed(field[text.index(after: equals)...])
        guard let dash = range.utf8.firstIndex(of: UInt8(ascii: "-")) else { return nil }
        let (first, last) = (range.utf8[..<dash], range.utf8[range.utf8.index(after: dash)...])
        if first.isEmpty {
            guard let count = DeltaSeconds.parse(last), count > 0, length > 0 else { return nil }
            return max(0, length - Int(min(count, Int64(length))))..<length
        }
        guard let start = DeltaSeconds.parse(first), start < length else { return nil }
        if last.isEmpty { return Int(start)..<length }
        guard let end = DeltaSeconds.parse(last), end >= start else { return nil }
        return Int(start)..<Int(min(end, Int64(length) - 1)) + 1
    }
}

/// The properties of a stored response that decide about its use, computed once when it is stored.
struct ResponseFacts: Sendable {
    let directives: ResponseDirectives
    /// The time at which the response was generated, in seconds since 1970: its `Date`, or its arrival.
    let date: Int64
    /// The age on arrival, in seconds (RFC 9111, section 4.2.3).
    let initialAge: Int64
    /// The freshness lifetime, in seconds (section 4.2.1).
    let lifetime: Int64
    let isHeuristic: Bool
    /// The validators, if valid enough to be sent back.
    let etag: String?
    let lastModified: String?

    /// - Parameters:
    ///   - requested: The time at which the request was sent.
    ///   - received: The time at which the head had arrived.
    init(_ head: CachedHead, requested: CacheTime, received: CacheTime) {
        let fields = head.fields
        directives = ResponseDirectives(fields)
        let arrival = received.wall / 1000
        let stated = fields.first("date").flatMap { HTTPDate.parse($0, now: arrival) }
        date = stated ?? arrival
        let delay = max(0, received.up - requested.up) / 1000
        initialAge = max(max(0, arrival - date), ResponseFacts.age(fields) + delay)
        etag = fields.first("etag").flatMap { SafeFieldValue(latin1: $0) == nil ? nil : $0 }
        lastModified = fields.first("last-modified").flatMap { SafeFieldValue(latin1: $0) == nil ? nil : $0 }
        let expires = fields.all("expires")
        if directives.hasInvalidMaxAge {
            lifetime = 0
            isHeuristic = false
        } else if let maxAge = directives.maxAge {
            lifetime = maxAge
            isHeuristic = false
        } else if let first = expires.first {
            // Several `Expires` fields are invalid unless their values are equal.
            let time = expires.allSatisfy { $0 == first } ? StrictDate.parse(first, now: arrival) : nil
            lifetime = max(0, (time ?? date) - date)
            isHeuristic = false
        } else {
            isHeuristic = true
            lifetime = ResponseFacts.heuristicLifetime(head, directives, lastModified, date: date, now: arrival)
        }
    }

    /// Whether the response can be validated.
    var hasValidator: Bool { etag != nil || lastModified != nil }

    /// Returns the number in the first `Age` field; 0 for an invalid one (section 5.1).
    static func age(_ fields: Fields) -> Int64 {
        guard let value = fields.first("age") else { return 0 }
        let first = value.utf8.prefix { $0 != UInt8(ascii: ",") }
        return DeltaSeconds.parse(HTTPSyntax.trimmed(Substring(first)).utf8) ?? 0
    }

    /// The maximum lifetime of responses without explicit freshness, in seconds: a day.
    static let longestHeuristicLifetime: Int64 = 86400

    /// Returns the heuristic lifetime: a tenth of the time since the last change (section 4.2.2).
    private static func heuristicLifetime(
        _ head: CachedHead, _ directives: ResponseDirectives, _ lastModified: String?, date: Int64, now: Int64
    ) -> Int64 {
        guard StatusRules.isHeuristicallyCacheable(head.statusCode) || directives.isPublic,
            let changed = lastModified.flatMap({ HTTPDate.parse($0, now: now) }), changed < date
        else { return 0 }
        // `Pragma` of HTTP/1.0 counts if `Cache-Control` is absent (section 5.4).
        if head.fields.contains("pragma"), !head.fields.contains("cache-control"),
            head.fields.members("pragma").contains(where: { FieldNames.matches(String($0), "no-cache") })
        {
            return 0
        }
        return min((date - changed) / 10, longestHeuristicLifetime)
    }
}

/// A parser for dates in `Expires`, which must have exactly one of the three forms (RFC 9110, section 5.6.7), in any
/// case of letters. An invalid date makes a response stale (RFC 9111, section 5.3): guessing too late a time would
/// serve a stale response.
enum StrictDate {
    /// Returns the seconds since 1970; nil for any other string.
    static func parse(_ text: String, now: Int64) -> Int64? {
        hasForm(Array(text.utf8)) ? HTTPDate.parse(text, now: now) : nil
    }

    private static func hasForm(_ text: [UInt8]) -> Bool {
        if text.count == 29 { return fits(text, "aaa, 00 aaa 0000 00:00:00 GMT") }
        if text.count == 24 { return fits(text, "aaa aaa _0 00:00:00 0000") }
        guard let comma = text.firstIndex(of: UInt8(ascii: ",")), (6...9).contains(comma) else { return false }
        return text[..<comma].allSatisfy(isLetter) && fits(Array(text[comma...]), ", 00-aaa-00 00:00:00 GMT")
    }

    /// - Parameter form: `a` stands for a letter, `0` for a digit, `_` for a digit or a space, any other character for
    ///   itself.
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
