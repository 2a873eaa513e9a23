import ConvoySupport

/// What the `Cache-Control` of a response says to a private cache (RFC 9111, section 5.2.2; RFC 5861; RFC 8246).
///
/// `private` and `s-maxage`, `proxy-revalidate` are not for it. Of a directive that is there twice, the stricter counts.
struct ResponseDirectives: Sendable, Hashable {
    /// Seconds.
    var maxAge: Int64?
    /// Whether a `max-age` cannot be understood: such a response is stale (section 4.2.1).
    var hasInvalidMaxAge = false
    var noStore = false
    /// `no-cache` without names of fields.
    var noCache = false
    /// The fields that `no-cache` names, in lower case: they are not served before the origin has confirmed them.
    var unconfirmedFields: [String] = []
    var mustRevalidate = false
    var mustUnderstand = false
    var isPublic = false
    var isPrivate = false
    var isImmutable = false
    /// Seconds.
    var staleWhileRevalidate: Int64?
    /// Seconds.
    var staleIfError: Int64?

    init(_ fields: Fields) {
        for field in fields where FieldNames.matches(field.name, "cache-control") {
            var scanner = DirectiveScanner(field.value)
            while let directive = scanner.next() { take(directive) }
        }
    }

    private mutating func take(_ directive: DirectiveScanner.Directive) {
        switch directive.name {
        case "max-age":
            guard let seconds = directive.seconds else { return hasInvalidMaxAge = true }
            maxAge = min(maxAge ?? seconds, seconds)
        case "no-store": noStore = true
        case "no-cache":
            // An empty list names nothing; to be on the safe side it stands for the whole response.
            let names = (directive.value ?? "").utf8.split(separator: UInt8(ascii: ",")).map {
                FieldNames.lowercased(HTTPSyntax.trimmed(Substring($0)))
            }
            if names.isEmpty || directive.isMalformed { noCache = true }
            // So many that looking for them in each answer takes time stand for the whole response as well.
            if unconfirmedFields.count + names.count > 64 { noCache = true } else { unconfirmedFields += names }
        case "must-revalidate": mustRevalidate = true
        case "must-understand": mustUnderstand = true
        case "public": isPublic = true
        case "private": isPrivate = true
        case "immutable": isImmutable = true
        case "stale-while-revalidate":
            // What cannot be understood permits nothing.
            let seconds = directive.seconds ?? 0
            staleWhileRevalidate = min(staleWhileRevalidate ?? seconds, seconds)
        case "stale-if-error":
            let seconds = directive.seconds ?? 0
            staleIfError = min(staleIfError ?? seconds, seconds)
        default: break
        }
    }
}
