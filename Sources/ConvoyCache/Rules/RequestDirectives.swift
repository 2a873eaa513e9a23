/// What the `Cache-Control` and the `Pragma` of a request say (RFC 9111, sections 5.2.1 and 5.4; RFC 5861).
struct RequestDirectives: Sendable, Hashable {
    /// Seconds.
    var maxAge: Int64?
    /// Seconds.
    var minFresh: Int64?
    /// Seconds; `max-stale` without a number is the largest one.
    var maxStale: Int64?
    var noCache = false
    var noStore = false
    var onlyIfCached = false
    /// Seconds.
    var staleIfError: Int64?

    init() {}

    /// Whether the request has something to say about how fresh a response must be, so that what the origin permits on
    /// its own is not enough.
    var wantsFreshness: Bool { maxAge != nil || minFresh != nil || noCache }

    mutating func take(cacheControl value: String) {
        var scanner = DirectiveScanner(value)
        while let directive = scanner.next() {
            switch directive.name {
            case "max-age":
                // What cannot be understood is taken for the strictest.
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

    /// `Pragma` counts only where there is no `Cache-Control`.
    mutating func take(pragma value: String) {
        var scanner = DirectiveScanner(value)
        while let directive = scanner.next() {
            if directive.name == "no-cache" { noCache = true }
        }
    }
}
