@testable import ConvoyCache
import ConvoySupport

/// A clock controlled by the test.
final class SimulatedClock: Sendable {
    private let time: Locked<CacheTime>

    init(wall: Int64 = 1_800_000_000_000, up: Int64 = 5_000_000) { time = Locked(CacheTime(wall: wall, up: up)) }

    /// - Parameter boot: The number of the system's boot.
    func clock(boot: Int64 = 1) -> CacheClock { CacheClock(boot: boot) { self.now } }

    var now: CacheTime { time.withLock { $0 } }

    func advance(seconds: Double) {
        let milliseconds = Int64(seconds * 1000)
        time.withLock {
            $0.wall += milliseconds
            $0.up += milliseconds
        }
    }

    /// Sets the clock back, like an administrator.
    func setBack(seconds: Double) { time.withLock { $0.wall -= Int64(seconds * 1000) } }
}
