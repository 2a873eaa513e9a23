import Foundation

/// A moment on two clocks, in milliseconds.
struct CacheTime: Sendable, Hashable {
    /// Since 1970. It can be set forwards and back.
    var wall: Int64
    /// Since the boot of the system, sleep included. Monotonic, but meaningless after the next boot.
    var up: Int64
}

/// The clock of a cache, which tests replace.
struct CacheClock: Sendable {
    var now: @Sendable () -> CacheTime
    /// The boot of the system that `up` counts from.
    var boot: Int64

    init(boot: Int64, now: @escaping @Sendable () -> CacheTime) {
        self.boot = boot
        self.now = now
    }

    static let system = CacheClock(boot: currentBoot()) {
        CacheTime(wall: read(CLOCK_REALTIME), up: read(CLOCK_BOOTTIME))
    }

    /// The kernel's identifier of this boot; if it is unavailable, a random number, which equals no stored one.
    private static func currentBoot() -> Int64 {
        guard let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8),
            let id = UUID(uuidString: String(text.prefix(36)))
        else { return .random(in: 1 ... .max) }
        return withUnsafeBytes(of: id.uuid) { $0.loadUnaligned(as: Int64.self) }
    }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}

/// Parses numbers of seconds in fields (RFC 9111, section 1.2.2).
enum DeltaSeconds {
    /// The value of all larger numbers: far more than any age, and small enough for sums.
    static let limit: Int64 = 1 << 40

    /// The number that the digits denote; nil for any other text.
    static func parse(_ text: some Collection<UInt8>) -> Int64? {
        guard !text.isEmpty else { return nil }
        var value: Int64 = 0
        for byte in text {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            value = min(value * 10 + Int64(byte - UInt8(ascii: "0")), limit)
        }
        return value
    }
}

/// The age and the freshness lifetime of a stored response, in milliseconds.
struct Freshness: Sendable, Hashable {
    let age: Int64
    let lifetime: Int64
    /// Whether the age is unknown, because the clock was set back.
    let isUnknown: Bool

    /// - Parameters:
    ///   - received: When it was received or last confirmed; `up` counts only if `isOfThisRun`.
    ///   - isOfThisRun: Whether it arrived since the last boot.
    init(_ facts: ResponseFacts, received: CacheTime, isOfThisRun: Bool, now: CacheTime) {
        let byWall = now.wall - received.wall
        // The later of the two clocks counts, so that setting the wall clock back makes nothing younger.
        let resident = isOfThisRun ? max(byWall, now.up - received.up) : byWall
        age = facts.initialAge * 1000 + max(0, resident)
        // An arrival in the future means that the clock is wrong and the age unknown: the response is stale.
        isUnknown = resident < 0
        lifetime = isUnknown ? 0 : facts.lifetime * 1000
    }

    var isFresh: Bool { lifetime > age }
    /// How long it has been stale; the maximum if the age is unknown.
    var staleness: Int64 { isUnknown ? DeltaSeconds.limit * 1000 : max(0, age - lifetime) }
}
