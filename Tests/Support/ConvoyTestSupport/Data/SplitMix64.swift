import Foundation

/// A small random number generator with a seed, which makes failures reproducible.
public struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Creates a generator with a seed.
    public init(seed: UInt64) {
        state = seed
    }

    /// Returns a generator for a test, and prints its seed, which `CONVOY_SEED` can set.
    public static func printingSeed(of test: String = #function) -> SplitMix64 {
        let seed = ProcessInfo.processInfo.environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? .random(in: 0...0xFFFF_FFFF)
        print("\(test): CONVOY_SEED=\(seed)")
        return SplitMix64(seed: seed)
    }

    /// Returns a generator for another thread, with a seed from this one.
    public mutating func fork() -> SplitMix64 { SplitMix64(seed: next()) }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z &>> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z &>> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z &>> 31)
    }

    /// Returns the given number of random bytes.
    public mutating func data(count: Int) -> Data {
        var bytes = [UInt64]()
        bytes.reserveCapacity(count / 8 + 1)
        for _ in 0..<(count / 8 + 1) { bytes.append(next()) }
        return bytes.withUnsafeBytes { Data($0.prefix(count)) }
    }
}

/// The number of random cases that property tests try. `CONVOY_BUDGET` multiplies the default counts in the tests;
/// `Tests/long properties` sets it.
public enum PropertyBudget {
    /// The value of `CONVOY_BUDGET`, by default 1.
    public static let factor = max(1, ProcessInfo.processInfo.environment["CONVOY_BUDGET"].flatMap { Int($0) } ?? 1)

    /// Returns a number of cases multiplied by ``factor``.
    public static func rounds(_ count: Int) -> Int { count * factor }
}
