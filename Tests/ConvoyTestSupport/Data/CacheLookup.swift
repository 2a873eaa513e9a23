import ConvoySupport

extension ResponseCacheExchange {
    /// Both lookups, for tests for which the difference does not matter. Calls back at once, or later on a queue of
    /// the cache.
    package func lookup(_ then: @escaping @Sendable (CacheAnswer) -> Void) {
        if let answer = lookUp() { then(answer) } else { lookUpInFiles(then) }
    }
}
