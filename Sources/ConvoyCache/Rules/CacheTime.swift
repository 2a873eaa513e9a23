import Foundation

/// A moment on two clocks, in milliseconds.
struct CacheTime: Sendable, Hashable {
    /// Since 1970. It can be set, forwards and back.
    var wall: Int64
    /// Since the system has started, sleep included. It never goes back, but means nothing after the next start.
    var up: Int64
}

/// The clock of a cache; tests have their own.
struct CacheClock: Sendable {
    var now: @Sendable () -> CacheTime
    /// Which run of the system `up` counts in.
    var boot: Int64

    init(boot: Int64, now: @escaping @Sendable () -> CacheTime) {
        self.boot = boot
        self.now = now
    }

    static let system = CacheClock(boot: currentBoot()) {
        CacheTime(wall: read(CLOCK_REALTIME), up: read(CLOCK_BOOTTIME))
    }

    /// The kernel's identifier of this run; a random number, which no stored one equals, if it does not tell.
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

/// Numbers of seconds in fields (RFC 9111, section 1.2.2).
enum DeltaSeconds {
    /// What a number is taken for that is larger. It is far more than any age, and leaves room for sums.
    static let limit: Int64 = 1 << 40

    /// The number of a text of digits; nil for any other text.
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
