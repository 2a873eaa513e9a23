import ConvoySupport

extension ResponseCacheExchange {
    /// Looks up a request in memory and, if necessary, in files. Calls back immediately, or later on a queue of the
    /// cache.
    package func lookup(_ then: @escaping @Sendable (CacheAnswer) -> Void) {
        if let answer = lookUp() { then(answer) } else { lookUpInFiles(then) }
    }
}
