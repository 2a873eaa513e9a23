/// How old a stored response is, and how long it is fresh, in milliseconds.
struct Freshness: Sendable, Hashable {
    let age: Int64
    let lifetime: Int64
    /// Whether the clock was set back, so that nobody knows how old it is.
    let isUnknown: Bool

    /// - Parameters:
    ///   - received: when it was received or last confirmed; `up` counts only if it `isOfThisRun`.
    ///   - isOfThisRun: whether it arrived since the system has started.
    init(_ facts: ResponseFacts, received: CacheTime, isOfThisRun: Bool, now: CacheTime) {
        let byWall = now.wall - received.wall
        // Of two clocks the later counts, so that setting one back makes nothing younger.
        let resident = isOfThisRun ? max(byWall, now.up - received.up) : byWall
        age = facts.initialAge * 1000 + max(0, resident)
        // A time of arrival that is yet to come says that the clock is wrong, and nothing about the age: it is stale.
        isUnknown = resident < 0
        lifetime = isUnknown ? 0 : facts.lifetime * 1000
    }

    var isFresh: Bool { lifetime > age }
    /// How long it has been stale; of an unknown age, as long as can be.
    var staleness: Int64 { isUnknown ? DeltaSeconds.limit * 1000 : max(0, age - lifetime) }
}
