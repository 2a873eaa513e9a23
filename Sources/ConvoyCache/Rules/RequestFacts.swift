import ConvoySupport

/// The properties of a request that matter to the cache, collected in one pass over its fields.
struct RequestFacts: Sendable {
    enum Method: Sendable, Hashable {
        case get, head
        /// A safe method whose responses this cache does not store.
        case otherSafe
        /// May change the resource (RFC 9110, section 9.2.1). Includes unknown methods.
        case unsafe
    }

    let method: Method
    /// Normalised.
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
    /// Whether it has a condition that only the origin can evaluate: `If-Match` or `If-Unmodified-Since`.
    private(set) var hasPrecondition = false
    /// Whether missing fields match any stored value, because not all of its fields are known.
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

    /// Whether a stored response could answer it.
    var mayBeAnswered: Bool { (method == .get || method == .head) && !hasBody && !hasPrecondition }

    /// Whether it has conditions of its own, so that the cache must not add any.
    var isConditional: Bool { ifNoneMatch != nil || ifModifiedSince != nil || hasPrecondition }
}

/// A requested range of bytes (RFC 9110, section 14.1.2). The cache serves only single ranges.
enum ByteRange {
    /// The part of a body that a `Range` field requests.
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
