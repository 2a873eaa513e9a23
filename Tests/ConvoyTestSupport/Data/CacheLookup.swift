import ConvoySupport

extension ResponseCacheExchange {
    /// Looks up a request, for tests that need not distinguish both kinds of lookup. Calls back immediately, or later
    /// on a queue of the cache.
    package func lookup(_ then: @escaping @Sendable (CacheAnswer) -> Void) {
        if let answer = lookUp() { then(answer) } else { lookUpInFiles(then) }
    }
}
