import ConvoySupport

extension ResponseCacheExchange {
    /// Both ways to look something up, for whom the difference does not matter. Calls back at once, or later on a queue of
    /// the cache.
    package func lookup(_ then: @escaping @Sendable (CacheAnswer) -> Void) {
        if let answer = lookUp() { then(answer) } else { lookUpInFiles(then) }
    }
}
