import ConvoySupport

/// The directives in `Cache-Control` and `Pragma` of a request (RFC 9111, sections 5.2.1 and 5.4; RFC 5861).
struct RequestDirectives: Sendable, Hashable {
    /// The value of `max-age`, in seconds.
    var maxAge: Int64?
    /// The value of `min-fresh`, in seconds.
    var minFresh: Int64?
    /// The value of `max-stale`, in seconds; without a number, the maximum value.
    var maxStale: Int64?
    var noCache = false
    var noStore = false
    var onlyIfCached = false
    /// The value of `stale-if-error`, in seconds.
    var staleIfError: Int64?

    init() {}

    /// Whether the request demands freshness, so that the origin's permission to serve stale responses is not enough.
    var wantsFreshness: Bool { maxAge != nil || minFresh != nil || noCache }

    mutating func take(cacheControl value: String) {
        var scanner = DirectiveScanner(value)
        while let directive = scanner.next() {
            switch directive.name {
            case "max-age":
                // An invalid number counts as the strictest value.
                let seconds = directive.seconds ?? 0
                maxAge = min(maxAge ?? seconds, seconds)
            case "min-fresh":
                let seconds = directive.seconds ?? DeltaSeconds.limit
                minFresh = max(minFresh ?? seconds, seconds)
            case "max-stale":
                let seconds = directive.value == nil ? DeltaSeconds.limit : directive.seconds ?? 0
                maxStale = min(maxStale ?? seconds, seconds)
            case "no-cache": noCache = true
            case "no-store": noStore = true
            case "only-if-cached": onlyIfCached = true
            case "stale-if-error":
                let seconds = directive.seconds ?? 0
                staleIfError = min(staleIfError ?? seconds, seconds)
            default: break
            }
        }
    }

    /// Applies `Pragma`, which counts only without `Cache-Control`.
    mutating func take(pragma value: String) {
        var scanner = DirectiveScanner(value)
        while let directive = scanner.next() {
            if directive.name == "no-cache" { noCache = true }
        }
    }
}

/// The `Cache-Control` directives of a response for a private cache (RFC 9111, section 5.2.2; RFC 5861; RFC 8246). The
/// directives `private`, `s-maxage` and `proxy-revalidate` do not apply to a private cache. If a directive is repeated,
/// the stricter value counts.
struct ResponseDirectives: Sendable, Hashable {
    /// The value of `max-age`, in seconds.
    var maxAge: Int64?
    /// Whether a `max-age` is invalid, which makes the response stale (section 4.2.1).
    var hasInvalidMaxAge = false
    var noStore = false
    /// Whether `no-cache` was sent without field names.
    var noCache = false
    /// The fields that `no-cache` names, in lower case, which must be revalidated before they are served.
    var unconfirmedFields: [String] = []
    var mustRevalidate = false
    var mustUnderstand = false
    var isPublic = false
    var isPrivate = false
    var isImmutable = false
    /// The value of `stale-while-revalidate`, in seconds.
    var staleWhileRevalidate: Int64?
    /// The value of `stale-if-error`, in seconds.
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
            // An empty list names no fields. To be safe, apply the directive to the whole response.
            let names = (directive.value ?? "").utf8.split(separator: UInt8(ascii: ",")).map {
                FieldNames.lowercased(HTTPSyntax.trimmed(Substring($0)))
            }
            if names.isEmpty || directive.isMalformed { noCache = true }
            // Also apply a long list to the whole response, because checking it would slow down each lookup.
            if unconfirmedFields.count + names.count > 64 { noCache = true } else { unconfirmedFields += names }
        case "must-revalidate": mustRevalidate = true
        case "must-understand": mustUnderstand = true
        case "public": isPublic = true
        case "private": isPrivate = true
        case "immutable": isImmutable = true
        case "stale-while-revalidate":
            // An invalid number permits nothing.
            let seconds = directive.seconds ?? 0
            staleWhileRevalidate = min(staleWhileRevalidate ?? seconds, seconds)
        case "stale-if-error":
            let seconds = directive.seconds ?? 0
            staleIfError = min(staleIfError ?? seconds, seconds)
        default: break
        }
    }
}

/// A scanner that reads the directives of `Cache-Control` one by one (RFC 9111, section 5.2). It skips anything that is
/// not a directive up to the next comma.
struct DirectiveScanner {
    struct Directive {
        /// The name, in lower case.
        var name: String
        /// The argument without quotes; nil without an `=`.
        var value: String?
        /// Whether the directive violates the grammar, so that its value cannot be trusted.
        var isMalformed = false

        /// The value as a number of seconds; nil if it is not a number.
        var seconds: Int64? { isMalformed ? nil : value.flatMap { DeltaSeconds.parse($0.utf8) } }
    }

    private var rest: Substring.UTF8View

    init(_ value: String) { rest = Substring(value).utf8 }

    mutating func next() -> Directive? {
        rest = rest.drop { HTTPSyntax.isOptionalWhitespace($0) || $0 == UInt8(ascii: ",") }
        guard !rest.isEmpty else { return nil }
        let name = rest.prefix(while: HTTPSyntax.isTokenByte)
        rest = rest.dropFirst(name.count)
        var directive = Directive(name: FieldNames.lowercased(Substring(name)), value: nil)
        if rest.first == UInt8(ascii: "=") {
            rest = rest.dropFirst()
            directive.value = value()
        }
        directive.isMalformed = skipToComma() || name.isEmpty
        return directive
    }

    private mutating func value() -> String {
        guard rest.first == UInt8(ascii: "\"") else {
            let value = rest.prefix { $0 != UInt8(ascii: ",") && !HTTPSyntax.isOptionalWhitespace($0) }
            rest = rest.dropFirst(value.count)
            return String(Substring(value))
        }
        return String(decoding: HTTPSyntax.quotedString(&rest).text, as: UTF8.self)
    }

    /// Skips to the next comma that is not quoted. Returns whether the skipped bytes include anything but whitespace.
    private mutating func skipToComma() -> Bool {
        var isQuoted = false
        var found = false
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: ","), !isQuoted { return found }
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if !HTTPSyntax.isOptionalWhitespace(byte) { found = true }
        }
        return found
    }
}
