import ConvoySupport

/// What of a request matters to its cache, found in one pass over its fields.
struct RequestFacts: Sendable {
    enum Method: Sendable, Hashable {
        case get, head
        /// Without effect, but its responses are not for this cache.
        case otherSafe
        /// May change what is at its address (RFC 9110, section 9.2.1); a method that nobody knows is one.
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
    /// Whether it has a condition that only the origin can decide: `If-Match` or `If-Unmodified-Since`.
    private(set) var hasPrecondition = false
    /// Whether fields that it does not have match those of a stored request: not all of its fields are known.
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

    /// Whether it asks for what has changed only, so that the cache must not ask the same for itself.
    var isConditional: Bool { ifNoneMatch != nil || ifModifiedSince != nil || hasPrecondition }
}
